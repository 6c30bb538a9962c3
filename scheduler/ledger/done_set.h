#ifndef SHOAL_SCHEDULER_LEDGER_DONE_SET_H_
#define SHOAL_SCHEDULER_LEDGER_DONE_SET_H_

#include <cstdint>
#include <set>
#include <vector>

#include "proto/scheduler.pb.h"

namespace shoal {

// A set of split numbers that grows mostly in order: all below a prefix, and a few beyond. Not thread-safe.
class DoneSet {
 public:
  DoneSet() = default;
  explicit DoneSet(uint64_t prefix) : prefix_(prefix) {}
  bool Contains(uint64_t split) const { return split < prefix_ || extra_.count(split) != 0; }
  void Add(uint64_t split);
  void Remove(uint64_t split);
  uint64_t prefix() const { return prefix_; }
  uint64_t size() const { return prefix_ + extra_.size(); }
  const std::set<uint64_t>& extra() const { return extra_; }

 private:
  uint64_t prefix_ = 0;
  std::set<uint64_t> extra_;  // all > prefix_
};

// The splits below `limit` that are done in every one of the partitions.
DoneSet Intersect(const std::vector<PartitionDone>& partitions, uint64_t limit);

}  // namespace shoal

#endif  // SHOAL_SCHEDULER_LEDGER_DONE_SET_H_
