// Counters that the partitions of one job share, and how a push adds to them.
#ifndef SHOAL_SERVER_STORE_STORE_STATS_H_
#define SHOAL_SERVER_STORE_STORE_STATS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

namespace shoal {

// Of one table and slot.
struct SlotCounts {
  int64_t rows = 0;
  int64_t keys = 0;            // rows plus counted keys
  uint64_t guard_refused = 0;  // rows
  uint64_t not_admitted = 0;
  uint64_t memory_refused = 0;
  uint64_t expired = 0;

  void Add(const SlotCounts& other);
};

// Thread-safe: relaxed atomics, each updated at most once per push, table and slot.
class StoreStats {
 public:
  // `slots`: slots of the job, at least 1.
  StoreStats(uint64_t tables, uint32_t slots);

  uint32_t slots() const { return slots_; }
  void Add(uint32_t table, uint32_t slot, const SlotCounts& counts);
  SlotCounts Of(uint32_t table, uint32_t slot) const;
  SlotCounts OfTable(uint32_t table) const;

  // Counts the bytes as reserved, unless used and reserved ones would exceed the limit.
  bool TryReserve(uint64_t bytes, uint64_t limit_bytes);

  std::vector<std::atomic<int64_t>> table_bytes;  // slabs and index
  std::atomic<int64_t> dense_bytes{0};
  std::atomic<uint64_t> dense_refused{0};  // blocks refused by the guard
  std::atomic<int64_t> used_bytes{0};      // all of the above
  std::atomic<int64_t> reserved_bytes{0};  // promised to pushes that passed the limit but have not grown yet

 private:
  struct Counters {
    std::atomic<int64_t> rows{0}, keys{0};
    std::atomic<uint64_t> guard_refused{0}, not_admitted{0}, memory_refused{0}, expired{0};
  };
  const uint32_t slots_;
  std::vector<Counters> counters_;  // by table, then slot
};

// What one push (or sweep, or load) changed and refused: collected by all partitions that it touches, published once,
// so that counting by slot costs nothing where rows are only updated. Not thread-safe.
class PushTally {
 public:
  // By tensor.
  struct DenseRefused {
    uint32_t tensor = 0;
    uint64_t blocks = 0;
  };

  // `stats` must outlive it.
  explicit PushTally(StoreStats* stats) : stats_(stats) {}
  ~PushTally() { Publish(); }
  PushTally(const PushTally&) = delete;
  PushTally& operator=(const PushTally&) = delete;

  // REQUIRES: slot < stats->slots(). Valid until the next call.
  SlotCounts& At(uint32_t table, uint32_t slot);
  void RefuseBlocks(uint32_t tensor, uint64_t blocks);

  // Calls visit(table, slot, counts) for what has been touched, in order of first touch.
  template <typename Visit>
  void ForEach(const Visit& visit) const {
    for (const Entry& entry : entries_) visit(entry.table, entry.slot, entry.counts);
  }
  const std::vector<DenseRefused>& dense_refused() const { return dense_; }

  // Adds everything to the shared counters and forgets it.
  void Publish();
  // Moves all of `other`, which has the same counters, here.
  void Take(PushTally* other);

 private:
  struct Entry {
    uint32_t table, slot;
    SlotCounts counts;
  };
  void Clear();

  StoreStats* const stats_;
  std::vector<uint32_t> entry_of_;  // by table, then slot: 1 + index into entries_; empty until something is counted
  std::vector<Entry> entries_;
  std::vector<DenseRefused> dense_;
};

}  // namespace shoal

#endif  // SHOAL_SERVER_STORE_STORE_STATS_H_
