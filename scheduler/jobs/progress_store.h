// What a job has counted and gone through, across restarts of the scheduler.
#ifndef SHOAL_SCHEDULER_JOBS_PROGRESS_STORE_H_
#define SHOAL_SCHEDULER_JOBS_PROGRESS_STORE_H_

#include <cstdint>

#include "absl/time/time.h"
#include "scheduler/jobs/event_log.h"
#include "scheduler/jobs/job_metrics.h"
#include "scheduler/jobs/recoveries.h"
#include "scheduler/state/durable_state.h"

namespace shoal {

// What was stored of a job beside its record; each may be null.
struct StoredLife {
  const StoredRounds* rounds = nullptr;
  const StoredProgress* progress = nullptr;
  const JobLogs* log = nullptr;
};

// Writes it once a second, less often the more it is: a scheduler that is killed loses that much. Not thread-safe.
class ProgressStore {
 public:
  explicit ProgressStore(DurableState* state) : state_(*state) {}

  // There is something new to be stored.
  void Touch() { changed_ = true; }
  // Stores what is due. `metrics`: null before there are any.
  void Save(uint64_t job, absl::Duration now, const EventLog& log, const JobMetrics* metrics,
            const Recoveries& recoveries, absl::Duration ran, uint64_t splits_done);
  // The job has ended: its last status has the numbers, the log stays.
  void End(uint64_t job, const EventLog& log);

 private:
  void SaveLog(uint64_t job, const EventLog& log);

  DurableState& state_;
  bool changed_ = false;
  uint64_t stored_lines_ = 0;
  absl::Duration due_;
};

}  // namespace shoal

#endif  // SHOAL_SCHEDULER_JOBS_PROGRESS_STORE_H_
