#ifndef SHOAL_SCHEDULER_PACING_THREAD_TABLE_H_
#define SHOAL_SCHEDULER_PACING_THREAD_TABLE_H_

#include <cstdint>
#include <functional>
#include <map>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "proto/scheduler.pb.h"
#include "scheduler/ledger/ledger.h"

namespace shoal {

// What the scheduler knows of one thread that asks for work.
struct WorkThread {
  using Done = std::function<void(absl::StatusOr<NextWorkReply>)>;
  struct Parked {
    Done done;
    absl::Duration until;
  };

  absl::optional<uint64_t> sequence;     // of its last question
  absl::optional<NextWorkReply> answer;  // to that question, when it gave work: a repeat gets it again
  absl::optional<Parked> parked;         // the question, while there is no answer
  uint32_t carried = 0;                  // bsp: leases that it still carries, of carried_job
  uint64_t carried_job = 0;
  uint64_t job = 0;  // that it works for; 0: idle
  absl::Duration last_asked;
};

// All threads that have asked for work. Not thread-safe.
class ThreadTable {
 public:
  WorkThread& Get(ThreadId id) { return threads_[id]; }
  std::map<ThreadId, WorkThread>& all() { return threads_; }
  const std::map<ThreadId, WorkThread>& all() const { return threads_; }
  // Threads that work for the job, and idle ones that have asked since `since`, of processes that `fits` accepts.
  uint32_t CountFor(uint64_t job, absl::Duration since, const std::function<bool(uint64_t process)>& fits) const;
  // Threads other than `self` that work for the job.
  uint32_t CountWorking(uint64_t job, ThreadId self) const;

 private:
  std::map<ThreadId, WorkThread> threads_;
};

}  // namespace shoal

#endif  // SHOAL_SCHEDULER_PACING_THREAD_TABLE_H_
