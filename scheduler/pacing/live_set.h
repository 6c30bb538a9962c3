#ifndef SHOAL_SCHEDULER_PACING_LIVE_SET_H_
#define SHOAL_SCHEDULER_PACING_LIVE_SET_H_

#include <cstdint>
#include <map>
#include <vector>

#include "scheduler/ledger/ledger.h"

namespace shoal {

// The lanes of one job that others wait for, each with the last clock that is known of it. Not thread-safe.
class LiveSet {
 public:
  struct Lane {
    ThreadId thread;
    uint64_t clock = 0;
  };

  // Lane of the thread; 0: it has none.
  uint64_t Find(ThreadId thread) const;
  // Adds a lane that starts at the slowest live clock. REQUIRES: the thread has no lane, `lane` was never used.
  const Lane& Join(uint64_t lane, ThreadId thread);
  // False when the thread had no lane.
  bool Leave(ThreadId thread);
  bool LeaveAllOf(uint64_t process);
  void Clear() { lanes_.clear(); }
  // Clocks never go back; a lane that is not the process's is ignored.
  void Report(uint64_t lane, uint64_t process, uint64_t clock);

  const std::map<uint64_t, Lane>& lanes() const { return lanes_; }
  uint32_t LanesOf(uint64_t process) const;

 private:
  void Erase(std::map<uint64_t, Lane>::iterator it);

  std::map<uint64_t, Lane> lanes_;
  uint64_t last_clock_ = 0;  // of the lane that left last: where the next one starts when nobody is there
};

}  // namespace shoal

#endif  // SHOAL_SCHEDULER_PACING_LIVE_SET_H_
