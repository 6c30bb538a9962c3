#ifndef SHOAL_SCHEDULER_JOBS_RECOVERIES_H_
#define SHOAL_SCHEDULER_JOBS_RECOVERIES_H_

#include <cstdint>
#include <deque>
#include <map>
#include <string>

#include "absl/time/time.h"
#include "proto/scheduler.pb.h"
#include "scheduler/state/state.pb.h"

namespace shoal {

// What a job went through, and how long it took until a lane finished a batch again, which all partitions must have
// taken. Not thread-safe.
class Recoveries {
 public:
  void Begin(const std::string& what, uint32_t partitions, absl::Duration now);
  // Splits that are leased again because of the newest one.
  void AddSplitsAgain(uint64_t splits);
  // A lane has finished this many batches. `whole`: no partition is lost. The first word of a lane after a loss may be
  // about batches from before it, so it takes two.
  void OnClock(uint64_t lane, uint64_t clock, bool whole, absl::Duration now);
  // A lane that begins after the loss: its first batch counts.
  void OnGrant(uint64_t lane, uint64_t clock);
  // There is nothing to train (any more).
  void Close(absl::Duration now);

  bool open() const { return open_ > 0; }
  void Fill(JobStatus* status) const;
  // Across a restart of the scheduler; what is not over yet is timed from `now` on.
  void Save(StoredProgress* progress) const;
  void Load(const StoredProgress& progress, absl::Duration now);

 private:
  static constexpr size_t kKept = 20;
  struct Entry {
    Recovery recovery;
    absl::Duration since;
  };
  std::deque<Entry> entries_;
  size_t open_ = 0;  // of the newest
  uint64_t in_all_ = 0;
  std::map<uint64_t, uint64_t> clocks_;  // by lane, what was heard first after the newest loss
};

}  // namespace shoal

#endif  // SHOAL_SCHEDULER_JOBS_RECOVERIES_H_
