// The rows of one sparse table in one partition.
#ifndef SHOAL_SERVER_STORE_SPARSE_TABLE_H_
#define SHOAL_SERVER_STORE_SPARSE_TABLE_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "server/store/change_log.h"
#include "server/store/job_schema.h"
#include "server/store/key_index.h"
#include "server/store/row_stream.h"
#include "server/store/slab_pool.h"
#include "server/store/store_stats.h"

namespace shoal {

// One table's share of a push, as sums over `examples` records.
struct RowGradients {
  uint32_t table = 0;
  absl::Span<const uint64_t> keys;
  const float* sums = nullptr;             // |keys| x dim
  absl::Span<const uint32_t> occurrences;  // by key; empty: one each
  absl::Span<const uint16_t> slots;        // by key; empty: `slot` for all
  uint16_t slot = 0;
  absl::Span<const uint64_t> hashes = {};  // by key, KeyPlace::within; empty: not known

  uint16_t SlotOf(uint64_t i) const { return slots.empty() ? slot : slots[i]; }
};

// When and how a push is applied.
struct PushContext {
  uint64_t now = 0;      // the partition's examples before the push: schedule and expiry
  uint64_t after = 0;    // ... and after it: what its rows remember
  float divisor = 1;     // of gradient sums
  float factor = 1;      // of the learning rate
  uint64_t version = 0;  // of the partition after the push: what its dense blocks remember
};

// A slab holds the weights of its rows one after the other and behind them their optimizer states, each followed (only
// with a TTL) by the time of its last push: so a row of 16 weights is one cache line, and a pull does not touch states.
// Rows never move. A row past its TTL is as good as absent from that instant; Sweep only reclaims its memory.
// Not thread-safe: the partition's lock guards it.
class SparseTable {
 public:
  // `schema`, `pool` and `stats` must outlive the table.
  SparseTable(const JobSchema& schema, uint32_t table, SlabPool* pool, StoreStats* stats);
  ~SparseTable();
  SparseTable(const SparseTable&) = delete;
  SparseTable& operator=(const SparseTable&) = delete;

  static constexpr uint64_t kIndexBytesPerKey = 26;  // upper bound, just after the index has grown
  // Bytes of a row, and of a slab of rows, of this table.
  static uint64_t RowBytes(const JobSchema& schema, uint32_t table);
  static uint64_t SlabBytes(const JobSchema& schema, uint32_t table);

  // Asks for what look-ups need of the table itself. Thread-safe.
  void PrefetchSelf() const {
    __builtin_prefetch(&index_);
    __builtin_prefetch(&slabs_);
  }
  // Copies weights, |keys| x dim; absent rows read as their initial value. Changes nothing. `stream` is at these keys.
  void Read(absl::Span<const uint64_t> keys, uint64_t now, RowStream* stream, float* out) const;
  void Read(absl::Span<const uint64_t> keys, uint64_t now, float* out) const;

  // One optimizer step on each key's row; creates rows. A row stays with the slot that it was created for.
  // `stream` is at these keys.
  void Apply(const RowGradients& gradients, const PushContext& context, RowStream* stream, PushTally* tally);
  void Apply(const RowGradients& gradients, const PushContext& context, PushTally* tally);

  // Upper bounds of the bytes that applying these keys would add: here; to any copy's NeedBytes, the most it can take.
  uint64_t GrowthBytes(const RowGradients& gradients, uint64_t now) const;
  uint64_t NewBytes(const RowGradients& gradients, uint64_t now) const;
  uint64_t NeedBytes() const;

  // Drops expired rows and counted keys among the next `cells` index cells.
  void Sweep(uint64_t now, uint64_t cells, PushTally* tally);
  uint64_t cells() const { return index_.cells(); }
  // Upper bound of what a full section holds of it.
  uint64_t SectionBytes() const { return index_.size() * (kSectionRowBytes + values_ * sizeof(float)); }
  uint64_t bytes() const { return slabs_.size() * pool_->slab_bytes() + index_.bytes(); }

  // Calls row(key, slot, touched, weights and state) and counted(key, slot, touched, count) for all that is not
  // expired.
  template <typename Row, typename Counted>
  void Visit(uint64_t now, const Row& row, const Counted& counted) const {
    std::vector<float> values(values_);
    for (uint64_t at = 0; at < index_.cells(); ++at) {
      if (!index_.used(at)) continue;
      const KeyIndex::Cell& cell = index_.at(at);
      if (Expired(cell, now)) continue;
      if (cell.is_row()) {
        const RowPlace place = PlaceOf(cell.value);
        CopyValues(place, &values);
        row(cell.key, cell.slot(), ttl_ ? Touched(place) : now, absl::MakeConstSpan(values));
      } else {
        counted(cell.key, cell.slot(), ttl_ ? cell.value * schema_.expiry.quantum : now, cell.count());
      }
    }
  }

  // Remembers from now on what changes, until Untrack. `now`: the partition's examples. REQUIRES: a new id.
  void Track(TrackerId tracker, uint64_t now);
  void Untrack(TrackerId tracker);  // unknown ones too
  // Calls for each key that changed since the tracker's mark, once, what it is now: a row, counted, or gone (keys that
  // came and went in between are gone, too). REQUIRES: tracked.
  struct ChangeVisitor {
    absl::FunctionRef<void(uint64_t key, uint32_t slot, uint64_t touched, absl::Span<const float> values)> row;
    absl::FunctionRef<void(uint64_t key, uint32_t slot, uint64_t touched, uint32_t count)> counted;
    absl::FunctionRef<void(uint64_t key)> erased;
  };
  void VisitChanges(TrackerId tracker, uint64_t now, const ChangeVisitor& visitor) const;
  // Moves the mark to now.
  void ClearChanges(TrackerId tracker, uint64_t now);

  // Takes over a change of another copy of this table. REQUIRES: as RestoreRow, but the key may be there; nobody
  // tracks.
  void UpsertRow(uint64_t key, uint32_t slot, uint64_t touched, absl::Span<const float> values, PushTally* tally);
  void UpsertCounted(uint64_t key, uint32_t slot, uint64_t touched, uint32_t count, PushTally* tally);
  void Erase(uint64_t key, PushTally* tally);  // absent keys too

  // Makes room for so many more keys at once.
  void Reserve(uint64_t keys);
  // Adds what a checkpoint held. REQUIRES: the key is absent (false otherwise); slot < schema.slot_count(); values has
  // dim + state floats, or dim for a fresh state; count <= KeyIndex::kMaxCount.
  bool RestoreRow(uint64_t key, uint32_t slot, uint64_t touched, absl::Span<const float> values, PushTally* tally);
  bool RestoreCounted(uint64_t key, uint32_t slot, uint64_t touched, uint32_t count, PushTally* tally);

 private:
  friend class RowStream;

  // Where rows are, as an object of its own, which a loop over many rows keeps in registers.
  struct Slabs {
    float* const* slabs;
    uint32_t shift, mask;
    uint64_t dim, state_floats;
    uint64_t states_at;  // floats from the beginning of a slab

    RowPlace At(uint32_t row) const {
      float* const slab = slabs[row >> shift];
      const uint64_t at = row & mask;
      return {slab + at * dim, slab + states_at + at * state_floats};
    }
  };
  Slabs slabs() const { return {slabs_.data(), slab_shift_, slab_mask_, dim_, state_floats_, dim_ << slab_shift_}; }
  RowPlace PlaceOf(uint32_t row) const { return slabs().At(row); }
  // Weights, then state.
  void CopyValues(const RowPlace& place, std::vector<float>* values) const;
  void SetValues(const RowPlace& place, absl::Span<const float> values) const;
  uint64_t Touched(const RowPlace& place) const;
  void Touch(const RowPlace& place, uint64_t when) const;
  bool Expired(const KeyIndex::Cell& cell, uint64_t now) const;

  // Rows whose gradients are divided and stepped in one go: the gradients stay in the first-level cache.
  static constexpr uint64_t kBlockRows = RowStream::kMost;
  static constexpr uint64_t kBlockFloats = 1024;

  // The row to step, made if need be; null when refused (counted).
  RowPlace Obtain(uint64_t key, uint32_t slot, uint32_t occurrences, const PushContext& context, PushTally* tally);
  // Its values are not set.
  RowPlace CreateRow(uint64_t key, uint32_t slot, uint64_t cell, PushTally* tally);
  void InitRow(uint64_t key, const RowPlace& place) const;
  uint32_t TakeRowNumber();
  void CountNew(const RowGradients& gradients, uint64_t now, uint64_t* rows, uint64_t* keys) const;
  bool AboveSoftLimit() const;
  void AccountBytes(int64_t more);
  void InsertKey(uint64_t key, uint32_t slot, uint32_t value, uint32_t count, PushTally* tally);
  void EraseExpired(uint64_t cell, PushTally* tally);
  void EraseCell(uint64_t cell, PushTally* tally);
  ChangeLog* LogOf(TrackerId tracker) const;
  // Tells all trackers that the key's row or count may have changed.
  void Note(uint64_t key);

  const JobSchema& schema_;
  const SparseSchema& shape_;
  SlabPool* const pool_;
  const uint32_t table_;
  StoreStats* const stats_;
  const bool ttl_;
  const uint64_t dim_;
  const uint64_t values_;        // weights and state
  const uint64_t state_floats_;  // from state to state
  const uint32_t slab_shift_;
  const uint32_t slab_mask_;
  KeyIndex index_;
  std::vector<float*> slabs_;
  uint32_t next_row_ = 0;
  std::vector<uint32_t> free_rows_;
  uint64_t sweep_cursor_ = 0;
  const uint64_t block_rows_;
  std::vector<float> scratch_;  // gradients of a block
  std::vector<std::pair<TrackerId, std::unique_ptr<ChangeLog>>> logs_;
};

}  // namespace shoal

#endif  // SHOAL_SERVER_STORE_SPARSE_TABLE_H_
