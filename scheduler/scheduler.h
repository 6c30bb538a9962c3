// The core of the scheduler: membership, jobs, ledger, state, behind plain calls with proto messages. scheduler/rpc
// puts it on the network, local/ calls it directly.
#ifndef SHOAL_SCHEDULER_SCHEDULER_H_
#define SHOAL_SCHEDULER_SCHEDULER_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "proto/scheduler.pb.h"

namespace shoal {

struct SchedulerOptions {
  std::string state_path;  // SQLite file; empty: in memory only (`shoal train`)
  absl::Duration heartbeat = absl::Milliseconds(500);
  absl::Duration deadline = absl::Seconds(3);  // of silence, after which a process is DEAD
  const Clock* clock = &Clock::Steady();
  uint32_t max_running_jobs = 4;   // others stay QUEUED
  uint32_t max_open_jobs = 10000;  // that have not ended; no more are taken
  uint32_t max_ended_jobs = 1000;  // remembered; those that ended first are forgotten
};

// Thread-safe. No call blocks; calls that wait (Watch, NextWork, GetJob) are parked and answered by whatever they wait
// for, or by Tick when their wait is over. `done` runs exactly once, on any thread, never under a lock.
class Scheduler {
 public:
  template <typename Reply>
  using Done = std::function<void(absl::StatusOr<Reply>)>;

  // Opens the state store and resumes what it holds.
  static absl::StatusOr<std::unique_ptr<Scheduler>> Create(const SchedulerOptions& options);
  ~Scheduler();  // answers what is parked with CANCELLED

  void Register(const RegisterRequest& request, Done<RegisterReply> done);
  void Heartbeat(const HeartbeatRequest& request, Done<HeartbeatReply> done);
  void Watch(const WatchRequest& request, Done<ClusterView> done);
  void NextWork(const NextWorkRequest& request, Done<NextWorkReply> done);
  void TaskDone(const TaskResult& request, Done<Empty> done);
  void Leave(const LeaveRequest& request, Done<Empty> done);
  void Drain(const DrainRequest& request, Done<Empty> done);
  void GetJobConfig(const JobRef& request, Done<JobConfig> done);
  void Submit(const SubmitRequest& request, Done<SubmitReply> done);
  void ListJobs(const Empty& request, Done<JobList> done);
  void GetJob(const GetJobRequest& request, Done<JobStatus> done);
  void Cancel(const JobRef& request, Done<Empty> done);
  void Logs(const JobRef& request, Done<JobLogs> done);
  void Status(const Empty& request, Done<ClusterStatus> done);

  // Passing of time: dead processes, periodic checkpoints, parked calls whose wait is over. Called about every 20 ms.
  void Tick();
  // The scheduler itself stood still for so long (stopped, starved, on a machine that slept): nobody could be heard
  // meanwhile, so nobody is held to have been silent.
  void Excuse(absl::Duration pause);
  // Tells all processes to drain and exit (`shoal local`, `shoal train`).
  void ShutdownCluster();

 private:
  class Impl;
  explicit Scheduler(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace shoal

#endif  // SHOAL_SCHEDULER_SCHEDULER_H_
