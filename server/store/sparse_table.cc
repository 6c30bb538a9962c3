#include "server/store/sparse_table.h"

#include <algorithm>
#include <cstring>

#include "base/check.h"
#include "server/store/initial_values.h"
#include "server/store/row_finder.h"

namespace shoal {
namespace {

// Big enough that a slab's unused tail is small beside a partition's rows, small enough for jobs of a few keys.
constexpr uint64_t kSlabBytes = 32 << 10;
// Floats at the end of a row that hold the time of its last push.
constexpr uint64_t kTouchedFloats = 2;
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

// The blocks have a size that the compiler knows, so that they are copied without a call.
void CopyRow(const float* row, uint64_t floats, float* out) {
  for (; floats >= kLineFloats; floats -= kLineFloats, row += kLineFloats, out += kLineFloats) {
    std::memcpy(out, row, kLineFloats * sizeof(float));
  }
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
      stride_(StrideOf(schema, shape_)),
      slab_shift_(SlabShift(stride_)),
      slab_mask_((1u << slab_shift_) - 1),
      index_(schema.partitions),
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

void SparseTable::Prefetch(absl::Span<const uint64_t> hashes) const {
  for (uint64_t hash : hashes.subspan(0, RowFinder::kAsked)) index_.PrefetchFirst(hash);
}

void SparseTable::Read(absl::Span<const uint64_t> keys, absl::Span<const uint64_t> hashes, uint64_t now,
                       float* out) const {
  RowFinder finder(*this, keys, hashes, dim_);
  for (uint64_t i = 0; i < keys.size(); ++i, out += dim_) {
    const float* const row = finder.Next();
    if (row != nullptr && !(ttl_ && schema_.expiry.Row(Touched(row), now))) {
      CopyRow(row, dim_, out);
    } else {
      FillInitialRow(schema_.seed, shape_.name_hash, keys[i], shape_.init_stddev, dim_, out);
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
  std::memcpy(row, values.data(), values.size() * sizeof(float));
  if (values.size() == dim_) schema_.sparse_rule->InitRow(row + dim_, dim_);
  if (ttl_) Touch(row, touched);
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
