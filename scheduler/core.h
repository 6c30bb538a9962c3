// The scheduler without its lock.
#ifndef SHOAL_SCHEDULER_CORE_H_
#define SHOAL_SCHEDULER_CORE_H_

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "scheduler/jobs/active_job.h"
#include "scheduler/jobs/job_environment.h"
#include "scheduler/scheduler.h"

namespace shoal {

// All of the scheduler's state and rules. Not thread-safe: Scheduler holds a lock around each call. Nothing is answered
// during a call; answers are collected, and TakeAnswers, called last, makes state durable before it hands them out.
class SchedulerCore {
 public:
  template <typename Reply>
  using Done = Scheduler::Done<Reply>;

  SchedulerCore(const SchedulerOptions& options, std::unique_ptr<DurableState> state);

  // --- Processes (core_processes.cc) ---
  void Register(const RegisterRequest& request, Done<RegisterReply> done);
  void Heartbeat(const HeartbeatRequest& request, Done<HeartbeatReply> done);
  void Watch(const WatchRequest& request, Done<ClusterView> done);
  void TaskDone(const TaskResult& request, Done<Empty> done);
  void Leave(const LeaveRequest& request, Done<Empty> done);
  void Drain(const DrainRequest& request, Done<Empty> done);

  // --- Work (core_work.cc) ---
  void NextWork(const NextWorkRequest& request, Done<NextWorkReply> done);

  // --- Jobs (core_jobs.cc) ---
  void GetJobConfig(const JobRef& request, Done<JobConfig> done);
  void Submit(const SubmitRequest& request, Done<SubmitReply> done);
  void ListJobs(const Empty& request, Done<JobList> done);
  void GetJob(const GetJobRequest& request, Done<JobStatus> done);
  void Cancel(const JobRef& request, Done<Empty> done);
  void Logs(const JobRef& request, Done<JobLogs> done);
  void Status(const Empty& request, Done<ClusterStatus> done);

  // --- Life (core.cc) ---
  void Resume();  // what the state store held; called once, first
  void Tick();
  void Excuse(absl::Duration pause) { members_.Excuse(pause, Now()); }
  void ShutdownCluster();
  void Close();  // answers what is parked with CANCELLED
  std::vector<std::function<void()>> TakeAnswers();

 private:
  struct ParkedWatch {
    uint64_t known_version;
    absl::Duration until;
    Done<ClusterView> done;
  };
  struct ParkedGetJob {
    uint64_t job;
    uint64_t known_version;
    absl::Duration until;
    Done<JobStatus> done;
  };

  // The answer goes out after the lock is released; with `stored` in its place when state could not be made durable.
  template <typename Reply>
  void Answer(Done<Reply> done, absl::StatusOr<Reply> reply) {
    answers_.push_back([done = std::move(done), reply = std::move(reply)](const absl::Status& stored) {
      done(stored.ok() ? reply : absl::StatusOr<Reply>(stored));
    });
  }

  absl::Duration Now() const { return options_.clock->Now(); }
  absl::Duration Until(uint32_t wait_ms) const;
  ActiveJob* FindJob(uint64_t id);
  absl::StatusOr<ActiveJob*> FindJobOrError(uint64_t id);
  // What a drain of a process that is not alive answers.
  absl::StatusOr<Empty> NothingToDrain(const std::string& name);
  // Whether no job that has not ended writes to the job's checkpoint.dir.
  absl::Status CheckDirectoryFree(const Job& job) const;
  void Gone(Process* process, const std::string& how, const absl::Status& answer);
  void StartQueuedJobs();
  void ForgetEndedJobs();
  // Lets those go that are draining and that no job needs any more.
  void ReleaseDrained();

  uint64_t ViewVersion(uint64_t process) const;
  ClusterView View(uint64_t process) const;
  void ServeWatchers();
  void ServeGetJobs();

  void HandIn(const Process& process, ThreadId id, const NextWorkRequest& request);
  absl::optional<NextWorkReply> FindWork(const Process& process, ThreadId id, WorkThread* thread);
  ActiveJob* ChooseJob(const Process& process, ThreadId id, const WorkThread& thread);
  void LeaveOtherLiveSets(ThreadId id, uint64_t job);
  // Answers the thread's parked question if it can be answered.
  void ServeThread(ThreadId id, WorkThread* thread);
  void ServeThreads();

  const SchedulerOptions options_;
  std::unique_ptr<DurableState> state_;
  Membership members_;
  TaskBoard tasks_;
  ThreadTable threads_;
  Changes changes_;
  JobEnvironment context_;
  std::map<uint64_t, std::unique_ptr<ActiveJob>> jobs_;  // ended ones too
  std::vector<ActiveJob*> active_;                       // those that have not ended, by id
  std::deque<uint64_t> ended_;                           // those of jobs_ that have, in that order
  std::map<std::string, uint64_t> request_ids_;
  uint64_t jobs_version_ = 0;  // of the job views
  bool shutdown_ = false;
  std::map<uint64_t, ParkedWatch> watchers_;  // by process
  std::vector<ParkedGetJob> get_jobs_;
  std::vector<std::function<void(const absl::Status& stored)>> answers_;
};

}  // namespace shoal

#endif  // SHOAL_SCHEDULER_CORE_H_
