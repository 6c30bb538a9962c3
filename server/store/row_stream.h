// Look-ups of many keys in many partitions whose cache misses overlap.
#ifndef SHOAL_SERVER_STORE_ROW_STREAM_H_
#define SHOAL_SERVER_STORE_ROW_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace shoal {

class Partition;
class SparseTable;

// Where a row's weights and optimizer state are; null: the key has no row.
struct RowPlace {
  float* weights = nullptr;
  float* state = nullptr;
};

// Goes through keys in order and hands out their rows, having asked for what comes next: first for a key's index line,
// a little later (the line has arrived) for its row or its second line, later still for the row that the second line
// names. It goes on with the next partition while the rows of the one before are still being used, so that nothing is
// waited for where one partition ends: at 50 keys each, starting over costs a fifth of a request.
//
// Hence several partitions are locked at a time. It never waits for a lock while it holds another one (a partition that
// is busy is waited for when all before it have been left), so that requests cannot block one another for ever.
//
// Rows may be created meanwhile; keys that are not found then must be looked up again. Not thread-safe.
class RowStream {
 public:
  // Keys of one table in one partition.
  struct Run {
    const Partition* partition = nullptr;  // null: its lock is held already, and will be
    const SparseTable* table = nullptr;    // may be null without keys
    absl::Span<const uint64_t> keys;
    absl::Span<const uint64_t> hashes;  // KeyPlace::within by key; empty: not known
  };

  // Runs of one partition are adjacent. states: states will be touched, too.
  RowStream(absl::Span<const Run> runs, bool states);
  ~RowStream();
  RowStream(const RowStream&) = delete;
  RowStream& operator=(const RowStream&) = delete;

  // For each partition in turn: Enter, as many keys of its runs as one likes with Next, Leave.
  void Enter();
  // Goes on by `count` keys, which are all of one run. REQUIRES: count <= kMost.
  void Next(uint64_t count);
  // The rows of these keys. Weights: null when there is none. State: REQUIRES `states`, and that there is one.
  float* Weights(uint64_t i) const { return rows_[(began_ + i) % kRing]; }
  float* State(uint64_t i) const { return row_states_[(began_ + i) % kRing]; }
  void Leave();

  static constexpr uint64_t kMost = 8;

 private:
  // Distances in keys: together more cache misses than a core can have outstanding, in an order in which each arrives
  // before it is needed. Best of the powers of two on the machines tried.
  static constexpr uint64_t kAsk = 16;   // before a key is looked at
  static constexpr uint64_t kLook = 16;  // before its row is used
  static constexpr uint64_t kFind = 8;   // after it was not found in its first line
  static constexpr uint64_t kRing = 32;  // kLook and kMost, rounded up
  // Others wait for what is locked.
  static constexpr uint64_t kMostHeld = 16;

  // A place in the keys of all runs.
  struct Cursor {
    uint64_t passed = 0;  // keys of all runs
    size_t run = 0;
    uint64_t at = 0;  // keys of the run
  };
  struct Pending {
    uint64_t number;  // of the key, over all runs
    uint64_t key, hash;
    const SparseTable* table;
  };

  // Looks ahead to so many keys, or to where a partition is busy.
  void Ahead(uint64_t keys);
  void Ask(uint64_t keys);
  void AskRun(const Run& run, uint64_t count);
  template <bool kStates>
  void Look(const Run& run, uint64_t count);
  void FindPending(uint64_t below);
  // Asks once more for the rows that are next. Some of what was asked for has not come: the lines of eight keys at a
  // time are more than a core has miss buffers for. At 10 million rows that is 10 % of a push, 3 % of a pull.
  void AskAgain() const;
  bool TryEnter();  // the run behind the one that is being looked at
  bool First(size_t run) const { return run == 0 || runs_[run].partition != runs_[run - 1].partition; }
  static void Lock(const Partition* partition);
  static bool TryLock(const Partition* partition);
  static void Unlock(const Partition* partition);

  const absl::Span<const Run> runs_;
  const bool states_;
  uint64_t total_ = 0;  // keys
  Cursor asked_, looked_, taken_;
  uint64_t began_ = 0;  // taken_.passed before the last Next
  size_t entered_ = 0;  // runs that were begun to be looked at; looked_ is in the last of them
  uint64_t held_ = 0;   // partitions
  float* rows_[kRing];
  float* row_states_[kRing] = {};
  Pending pending_[kRing];
  uint64_t pending_begin_ = 0, pending_end_ = 0;
};

}  // namespace shoal

#endif  // SHOAL_SERVER_STORE_ROW_STREAM_H_
