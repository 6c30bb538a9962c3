#include "server/store/sparse_table.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "server/store/initial_values.h"

namespace shoal {
namespace {

// Big enough that a slab's unused tail is small beside a partition's rows, small enough for jobs of a few keys.
constexpr uint64_t kSlabBytes = 32 << 10;
// Floats at the end of a state that hold the time of the row's last push.
constexpr uint64_t kTouchedFloats = 2;
constexpr uint64_t kLineFloats = 16;

uint64_t StateFloats(const JobSchema& schema, const SparseSchema& shape) {
  return shape.state + (schema.expiry.ttl != 0 ? kTouchedFloats : 0);
}

uint64_t RowFloats(const JobSchema& schema, const SparseSchema& shape) {
  return shape.dim + StateFloats(schema, shape);
}

// log2 of the rows of a slab.
uint32_t SlabShift(uint64_t row_floats) {
  uint32_t shift = 0;
  while ((row_floats * sizeof(float) << (shift + 1)) <= kSlabBytes) ++shift;
  return shift;
}

// The blocks have a size that the compiler knows, so that they are copied without a call.
void CopyRow(const float* row, uint64_t floats, float* out) {
  for (; floats >= kLineFloats; floats -= kLineFloats, row += kLineFloats, out += kLineFloats) {
    std::memcpy(out, row, kLineFloats * sizeof(float));
  }
  if (floats == 0) return;
  for (; floats >= 4; floats -= 4, row += 4, out += 4) std::memcpy(out, row, 4 * sizeof(float));
  for (; floats > 0; --floats) *out++ = *row++;
}

}  // namespace

SparseTable::SparseTable(const JobSchema& schema, uint32_t table, SlabPool* pool, StoreStats* stats)
    : schema_(schema),
      shape_(schema.tables[table]),
      pool_(pool),
      table_(table),
      stats_(stats),
      ttl_(schema.expiry.ttl != 0),
      dim_(shape_.dim),
      values_(uint64_t{shape_.dim} + shape_.state),
      state_floats_(StateFloats(schema, shape_)),
      slab_shift_(SlabShift(RowFloats(schema, shape_))),
      slab_mask_((1u << slab_shift_) - 1),
      index_(schema.partitions, pool->heap()),
      block_rows_(std::clamp<uint64_t>(kBlockFloats / dim_, 1, kBlockRows)),
      scratch_(block_rows_ * dim_) {}

SparseTable::~SparseTable() {
  for (float* slab : slabs_) pool_->Free(slab);
  AccountBytes(-static_cast<int64_t>(slabs_.size() * pool_->slab_bytes() + index_.bytes()));
  PushTally tally(stats_);
  for (uint64_t at = 0; at < index_.cells(); ++at) {
    if (!index_.used(at)) continue;
    SlotCounts& counts = tally.At(table_, index_.at(at).slot());
    counts.rows -= index_.at(at).is_row() ? 1 : 0;
    --counts.keys;
  }
}

uint64_t SparseTable::RowBytes(const JobSchema& schema, uint32_t table) {
  return RowFloats(schema, schema.tables[table]) * sizeof(float);
}

uint64_t SparseTable::SlabBytes(const JobSchema& schema, uint32_t table) {
  const uint64_t floats = RowFloats(schema, schema.tables[table]);
  return floats * sizeof(float) << SlabShift(floats);
}

uint64_t SparseTable::Touched(const RowPlace& place) const {
  uint64_t when;
  std::memcpy(&when, place.state + shape_.state, sizeof(when));
  return when;
}

void SparseTable::Touch(const RowPlace& place, uint64_t when) const {
  std::memcpy(place.state + shape_.state, &when, sizeof(when));
}

void SparseTable::CopyValues(const RowPlace& place, std::vector<float>* values) const {
  std::copy_n(place.weights, dim_, values->data());
  std::copy_n(place.state, shape_.state, values->data() + dim_);
}

void SparseTable::SetValues(const RowPlace& place, absl::Span<const float> values) const {
  std::copy_n(values.data(), dim_, place.weights);
  std::copy_n(values.data() + dim_, values.size() - dim_, place.state);
}

bool SparseTable::Expired(const KeyIndex::Cell& cell, uint64_t now) const {
  if (!ttl_) return false;
  return cell.is_row() ? schema_.expiry.Row(Touched(PlaceOf(cell.value)), now)
                       : schema_.expiry.Counted(cell.value, now);
}

void SparseTable::Read(absl::Span<const uint64_t> keys, uint64_t now, RowStream* stream, float* out) const {
  for (uint64_t begin = 0; begin < keys.size(); begin += RowStream::kMost) {
    const uint64_t count = std::min(RowStream::kMost, keys.size() - begin);
    stream->Next(count);
    for (uint64_t i = 0; i < count; ++i, out += dim_) {
      float* const row = stream->Weights(i);
      if (row != nullptr && !(ttl_ && schema_.expiry.Row(Touched({row, stream->State(i)}), now))) {
        CopyRow(row, dim_, out);
      } else {
        FillInitialRow(schema_.seed, shape_.name_hash, keys[begin + i], shape_.init_stddev, dim_, out);
      }
    }
  }
}

void SparseTable::Read(absl::Span<const uint64_t> keys, uint64_t now, float* out) const {
  const RowStream::Run run{nullptr, this, keys, {}};
  RowStream stream({&run, 1}, ttl_);
  stream.Enter();
  Read(keys, now, &stream, out);
  stream.Leave();
}

void SparseTable::Sweep(uint64_t now, uint64_t cells, PushTally* tally) {
  if (!ttl_ || index_.cells() == 0) return;
  for (cells = std::min(cells, index_.cells()); cells > 0 && index_.size() > 0; --cells) {
    if (sweep_cursor_ >= index_.cells()) sweep_cursor_ = 0;
    // Erasing may move the next key of the run into this cell, so the cell is looked at again.
    while (index_.used(sweep_cursor_) && Expired(index_.at(sweep_cursor_), now)) EraseExpired(sweep_cursor_, tally);
    ++sweep_cursor_;
  }
}

void SparseTable::EraseExpired(uint64_t cell, PushTally* tally) {
  const KeyIndex::Cell& erased = index_.at(cell);
  SlotCounts& counts = tally->At(table_, erased.slot());
  if (erased.is_row()) ++counts.expired;
  EraseCell(cell, tally);
}

void SparseTable::EraseCell(uint64_t cell, PushTally* tally) {
  const KeyIndex::Cell& erased = index_.at(cell);
  SlotCounts& counts = tally->At(table_, erased.slot());
  for (const auto& [id, log] : logs_) {
    if (erased.is_row()) {
      log->ErasedRow(erased.value, erased.key);
    } else {
      log->Erased(erased.key);
    }
  }
  if (erased.is_row()) {
    free_rows_.push_back(erased.value);
    --counts.rows;
  }
  --counts.keys;
  index_.Erase(cell);
}

bool SparseTable::RestoreRow(uint64_t key, uint32_t slot, uint64_t touched, absl::Span<const float> values,
                             PushTally* tally) {
  if (index_.Find(key) != KeyIndex::kNone) return false;
  const RowPlace place = CreateRow(key, slot, KeyIndex::kNone, tally);
  SetValues(place, values);
  if (values.size() == dim_) schema_.sparse_rule->InitRow(place.state, dim_);
  if (ttl_) Touch(place, touched);
  return true;
}

void SparseTable::Reserve(uint64_t keys) {
  const uint64_t before = index_.bytes();
  index_.Reserve(keys);
  AccountBytes(static_cast<int64_t>(index_.bytes()) - static_cast<int64_t>(before));
}

bool SparseTable::RestoreCounted(uint64_t key, uint32_t slot, uint64_t touched, uint32_t count, PushTally* tally) {
  if (index_.Find(key) != KeyIndex::kNone) return false;
  InsertKey(key, slot, static_cast<uint32_t>(touched / schema_.expiry.quantum), count, tally);
  return true;
}

void SparseTable::AccountBytes(int64_t more) {
  if (more == 0) return;
  stats_->table_bytes[table_] += more;
  stats_->used_bytes += more;
}

void SparseTable::InsertKey(uint64_t key, uint32_t slot, uint32_t value, uint32_t count, PushTally* tally) {
  const uint64_t before = index_.bytes();
  index_.Insert(key, value, KeyIndex::TagOf(slot, count));
  AccountBytes(static_cast<int64_t>(index_.bytes()) - static_cast<int64_t>(before));
  ++tally->At(table_, slot).keys;
}

}  // namespace shoal
