// What a job shares with the rest of the scheduler.
#ifndef SHOAL_SCHEDULER_JOBS_JOB_ENVIRONMENT_H_
#define SHOAL_SCHEDULER_JOBS_JOB_ENVIRONMENT_H_

#include "absl/time/time.h"
#include "base/clock.h"
#include "scheduler/jobs/task_board.h"
#include "scheduler/membership/membership.h"
#include "scheduler/pacing/thread_table.h"
#include "scheduler/state/durable_state.h"

namespace shoal {

// What happened during a call, so that the core wakes those who wait for it.
struct Changes {
  bool views = false;  // job views: states, maps, live sets
  bool work = false;   // there may be work for parked threads
  bool jobs = false;   // the version of some job
};

// Borrowed; all of it outlives the job.
struct JobEnvironment {
  const Clock* clock = nullptr;
  absl::Duration heartbeat;
  absl::Duration deadline;
  Membership* members = nullptr;
  TaskBoard* tasks = nullptr;
  ThreadTable* threads = nullptr;
  DurableState* state = nullptr;
  Changes* changes = nullptr;
};

}  // namespace shoal

#endif  // SHOAL_SCHEDULER_JOBS_JOB_ENVIRONMENT_H_
