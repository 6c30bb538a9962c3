// The pushing half of a sparse table: guard, admission, creation of rows, the optimizer's step.
#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "server/store/initial_values.h"
#include "server/store/sparse_table.h"

namespace shoal {

void SparseTable::Apply(const RowGradients& gradients, const PushContext& context, PushTally* tally) {
  const RowStream::Run run{nullptr, this, gradients.keys, gradients.hashes};
  RowStream stream({&run, 1}, true);
  stream.Enter();
  Apply(gradients, context, &stream, tally);
  stream.Leave();
}

void SparseTable::Apply(const RowGradients& gradients, const PushContext& context, RowStream* stream,
                        PushTally* tally) {
  const absl::Span<const uint64_t> keys = gradients.keys;
  const UpdateRule& rule = *schema_.sparse_rule;
  const bool tracked = !logs_.empty();
  float* rows[kBlockRows];
  float* states[kBlockRows];
  uint8_t good[kBlockRows];
  for (uint64_t begin = 0; begin < keys.size(); begin += block_rows_) {
    const uint64_t count = std::min(block_rows_, keys.size() - begin);
    stream->Next(count);
    row_kernels::DivideRows(gradients.sums + begin * dim_, count, dim_, context.divisor, schema_.max_abs,
                            scratch_.data(), good);
    uint64_t kept = 0;
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t at = begin + i;
      RowPlace place{stream->Weights(i), stream->State(i)};
      if (schema_.guard && good[i] == 0) {
        ++tally->At(table_, gradients.SlotOf(at)).guard_refused;
        continue;
      }
      // Cells may have moved since the look-up (rows never do), so everything but a live row starts again.
      if (place.weights == nullptr || (ttl_ && schema_.expiry.Row(Touched(place), context.now))) {
        const uint32_t occurrences = gradients.occurrences.empty() ? 1 : gradients.occurrences[at];
        place = Obtain(keys[at], gradients.SlotOf(at), occurrences, context, tally);
      }
      if (tracked) Note(keys[at]);
      if (place.weights == nullptr) continue;
      if (kept != i) std::memcpy(&scratch_[kept * dim_], &scratch_[i * dim_], dim_ * sizeof(float));
      if (ttl_) Touch(place, context.after);
      rows[kept] = place.weights;
      states[kept++] = place.state;
    }
    rule.UpdateRows(rows, states, scratch_.data(), kept, dim_, context.factor);
  }
}

bool SparseTable::AboveSoftLimit() const {
  return schema_.soft_limit_bytes != 0 &&
         stats_->used_bytes.load(std::memory_order_relaxed) >= static_cast<int64_t>(schema_.soft_limit_bytes);
}

RowPlace SparseTable::Obtain(uint64_t key, uint32_t slot, uint32_t occurrences, const PushContext& context,
                             PushTally* tally) {
  uint64_t cell = index_.Find(key);
  if (cell != KeyIndex::kNone && Expired(index_.at(cell), context.now)) {
    EraseExpired(cell, tally);
    cell = KeyIndex::kNone;
  }
  if (cell != KeyIndex::kNone && index_.at(cell).is_row()) return PlaceOf(index_.at(cell).value);
  const uint64_t seen = cell == KeyIndex::kNone ? 0 : index_.at(cell).count();
  const uint64_t total = std::min<uint64_t>(seen + occurrences, schema_.min_count);
  if (total >= schema_.min_count) {
    if (AboveSoftLimit()) {
      ++tally->At(table_, slot).memory_refused;
      return {};
    }
    const RowPlace place = CreateRow(key, slot, cell, tally);
    InitRow(key, place);
    return place;
  }
  if (cell == KeyIndex::kNone && AboveSoftLimit()) {
    ++tally->At(table_, slot).memory_refused;
    return {};
  }
  ++tally->At(table_, slot).not_admitted;
  if (total == 0) return {};
  const uint32_t quantum = static_cast<uint32_t>(context.after / schema_.expiry.quantum);
  if (cell != KeyIndex::kNone) {
    index_.at(cell).set_count(static_cast<uint32_t>(total));
    index_.at(cell).value = quantum;
  } else {
    InsertKey(key, slot, quantum, static_cast<uint32_t>(total), tally);
  }
  return {};
}

RowPlace SparseTable::CreateRow(uint64_t key, uint32_t slot, uint64_t cell, PushTally* tally) {
  const uint32_t number = TakeRowNumber();
  if (cell != KeyIndex::kNone) {
    index_.at(cell).value = number;
    index_.at(cell).set_count(0);
    slot = index_.at(cell).slot();
  } else {
    InsertKey(key, slot, number, 0, tally);
  }
  ++tally->At(table_, slot).rows;
  return PlaceOf(number);
}

uint32_t SparseTable::TakeRowNumber() {
  if (!free_rows_.empty()) {
    const uint32_t number = free_rows_.back();
    free_rows_.pop_back();
    return number;
  }
  if ((next_row_ & slab_mask_) == 0 && next_row_ >> slab_shift_ == slabs_.size()) {
    // 2^32 rows of one table in one partition would be terabytes of slabs on one server.
    SHOAL_CHECK(slabs_.size() < (uint64_t{1} << (32 - slab_shift_)));
    slabs_.push_back(pool_->Allocate());
    AccountBytes(static_cast<int64_t>(pool_->slab_bytes()));
  }
  return next_row_++;
}

void SparseTable::InitRow(uint64_t key, const RowPlace& place) const {
  FillInitialRow(schema_.seed, shape_.name_hash, key, shape_.init_stddev, dim_, place.weights);
  schema_.sparse_rule->InitRow(place.state, dim_);
  if (ttl_) Touch(place, 0);
}

void SparseTable::CountNew(const RowGradients& gradients, uint64_t now, uint64_t* rows, uint64_t* keys) const {
  *rows = *keys = 0;
  for (uint64_t i = 0; i < gradients.keys.size(); ++i) {
    const uint64_t cell = index_.Find(gradients.keys[i]);
    if (cell != KeyIndex::kNone && index_.at(cell).is_row()) continue;
    const uint64_t seen = cell == KeyIndex::kNone || Expired(index_.at(cell), now) ? 0 : index_.at(cell).count();
    const uint64_t more = gradients.occurrences.empty() ? 1 : gradients.occurrences[i];
    *rows += seen + more >= schema_.min_count ? 1 : 0;
    *keys += cell == KeyIndex::kNone ? 1 : 0;
  }
}

uint64_t SparseTable::GrowthBytes(const RowGradients& gradients, uint64_t now) const {
  uint64_t new_rows, new_keys;
  CountNew(gradients, now, &new_rows, &new_keys);
  if (new_rows + new_keys == 0) return 0;
  const uint64_t room = free_rows_.size() + (slabs_.size() << slab_shift_) - next_row_;
  const uint64_t short_of = new_rows > room ? new_rows - room : 0;
  const uint64_t slabs = (short_of + slab_mask_) >> slab_shift_;
  return slabs * pool_->slab_bytes() + index_.BytesAfter(new_keys) - index_.bytes();
}

uint64_t SparseTable::NewBytes(const RowGradients& gradients, uint64_t now) const {
  uint64_t rows, keys;
  CountNew(gradients, now, &rows, &keys);
  return rows * RowBytes(schema_, table_) + keys * kIndexBytesPerKey;
}

uint64_t SparseTable::NeedBytes() const {
  return (next_row_ - free_rows_.size()) * RowBytes(schema_, table_) + pool_->slab_bytes() +
         index_.size() * kIndexBytesPerKey;
}

}  // namespace shoal
