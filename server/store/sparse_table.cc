#include "server/store/sparse_table.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "server/store/initial_values.h"

namespace shoal {
namespace {

// Big enough that a slab's unused tail is small beside a partition's rows, small enough for jobs of a few keys.
constexpr uint64_t kSlabBytes = 32 << 10;
// Floats at the end of a row that hold the time of its last push.
constexpr uint64_t kTouchedFloats = 2;
// Probes in flight: more than the 10 to 16 cache misses that a core can have outstanding.
constexpr uint64_t kBatch = 32;
constexpr uint64_t kLineFloats = 16;

uint64_t StrideOf(const JobSchema& schema, const SparseSchema& shape) {
  return uint64_t{shape.dim} + shape.state + (schema.expiry.ttl != 0 ? kTouchedFloats : 0);
}

// log2 of the rows of a slab.
uint32_t SlabShift(uint64_t stride) {
  uint32_t shift = 0;
  while ((stride * sizeof(float) << (shift + 1)) <= kSlabBytes) ++shift;
  return shift;
}

void PrefetchRow(const float* row, uint64_t floats) {
  for (uint64_t i = 0; i < floats; i += kLineFloats) __builtin_prefetch(row + i);
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
      stride_(StrideOf(schema, shape_)),
      slab_shift_(SlabShift(stride_)),
      slab_mask_((1u << slab_shift_) - 1),
      index_(schema.partitions),
      scratch_(dim_) {}

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
  return StrideOf(schema, schema.tables[table]) * sizeof(float);
}

uint64_t SparseTable::SlabBytes(const JobSchema& schema, uint32_t table) {
  const uint64_t stride = StrideOf(schema, schema.tables[table]);
  return stride * sizeof(float) << SlabShift(stride);
}

uint64_t SparseTable::Touched(const float* row) const {
  uint64_t when;
  std::memcpy(&when, row + values_, sizeof(when));
  return when;
}

void SparseTable::Touch(float* row, uint64_t when) const { std::memcpy(row + values_, &when, sizeof(when)); }

bool SparseTable::Expired(const KeyIndex::Cell& cell, uint64_t now) const {
  if (!ttl_) return false;
  return cell.is_row() ? schema_.expiry.Row(Touched(RowAt(cell.value)), now) : schema_.expiry.Counted(cell.value, now);
}

void SparseTable::Read(absl::Span<const uint64_t> keys, uint64_t now, float* out) const {
  uint64_t homes[kBatch];
  const float* rows[kBatch];
  for (uint64_t begin = 0; begin < keys.size(); begin += kBatch) {
    const uint64_t count = std::min<uint64_t>(kBatch, keys.size() - begin);
    if (index_.cells() != 0) {
      for (uint64_t i = 0; i < count; ++i) {
        homes[i] = index_.Home(keys[begin + i]);
        index_.Prefetch(homes[i]);
      }
    }
    for (uint64_t i = 0; i < count; ++i) {
      rows[i] = nullptr;
      const uint64_t cell = index_.cells() == 0 ? KeyIndex::kNone : index_.FindFrom(homes[i], keys[begin + i]);
      if (cell == KeyIndex::kNone || !index_.at(cell).is_row()) continue;
      rows[i] = RowAt(index_.at(cell).value);
      PrefetchRow(rows[i], dim_);
    }
    for (uint64_t i = 0; i < count; ++i, out += dim_) {
      if (rows[i] != nullptr && !(ttl_ && schema_.expiry.Row(Touched(rows[i]), now))) {
        std::memcpy(out, rows[i], dim_ * sizeof(float));
      } else {
        FillInitialRow(schema_.seed, shape_.name_hash, keys[begin + i], shape_.init_stddev, dim_, out);
      }
    }
  }
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
  float* row = CreateRow(key, slot, KeyIndex::kNone, tally);
  std::memcpy(row, values.data(), values_ * sizeof(float));
  if (ttl_) Touch(row, touched);
  return true;
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
