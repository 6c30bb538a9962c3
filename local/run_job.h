// Submits a job and sees it through: shared by `shoal train`, `shoal submit --wait` and the tests.
#ifndef SHOAL_LOCAL_RUN_JOB_H_
#define SHOAL_LOCAL_RUN_JOB_H_

#include <atomic>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/job.pb.h"
#include "proto/scheduler.pb.h"
#include "proto/scheduler_client.h"

namespace shoal {

struct RunJobOptions {
  // Called with each new status (about five times a second while the job runs).
  std::function<void(const JobStatus&)> on_status;
  // When it becomes true the job is cancelled (a checkpoint is written first, if the job has a directory).
  const std::atomic<bool>* stop = nullptr;
  // Checkpoint that the job goes on from: as in SubmitRequest.
  std::string restore_from;
  // How long the scheduler may be unreachable before the call gives up (the job itself goes on).
  absl::Duration unreachable_limit = absl::Seconds(30);
};

// Submits and waits for SUCCEEDED, FAILED or CANCELLED; returns the last status whichever of them it is.
absl::StatusOr<JobStatus> RunJob(SchedulerClient* scheduler, const Job& job, const RunJobOptions& options);
// Waits for a job that is already submitted.
absl::StatusOr<JobStatus> WaitForJob(SchedulerClient* scheduler, uint64_t job, const RunJobOptions& options);

}  // namespace shoal

#endif  // SHOAL_LOCAL_RUN_JOB_H_
