// One job from submit to its end.
#ifndef SHOAL_SCHEDULER_JOBS_ACTIVE_JOB_H_
#define SHOAL_SCHEDULER_JOBS_ACTIVE_JOB_H_

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "scheduler/jobs/checkpoint_cycle.h"
#include "scheduler/jobs/event_log.h"
#include "scheduler/jobs/job_environment.h"
#include "scheduler/jobs/job_metrics.h"
#include "scheduler/jobs/job_partitions.h"
#include "scheduler/jobs/job_tasks.h"
#include "scheduler/jobs/progress_store.h"
#include "scheduler/jobs/recoveries.h"
#include "scheduler/ledger/pass_ledger.h"
#include "scheduler/ledger/round_ledger.h"
#include "scheduler/pacing/live_set.h"

namespace shoal {

// The state machine of one job: tasks for its processes, leases for its lanes, audits, checkpoints, metrics. Driven by
// events and Tick; calls nobody. Not thread-safe: the core's lock guards it.
class ActiveJob {
 public:
  // A new job is QUEUED. A stored one goes on where it was (Resume).
  ActiveJob(const JobEnvironment& context, StoredJob stored);

  // --- Life (active_job.cc, active_job_start.cc) ---
  void Start();                         // QUEUED -> STARTING
  void Resume(const StoredLife& life);  // after a restart of the scheduler
  void Tick();
  void Cancel();
  void Fail(const std::string& reason);
  void OnArrival(const Process& process);                       // a process has joined
  void OnGone(const Process& process, const std::string& how);  // "died", "left", "was restarted"
  void OnTaskResult(const Task& task, const Process& process, const TaskResult& result);
  void OnTaskLost(const Task& task);  // its process is gone

  // --- Drains (active_job_recovery.cc) ---
  // Why a server cannot be drained: nobody could take its partitions, and it is in no hurry. OK for a worker.
  absl::Status CheckDrain(const Process& process, uint32_t grace_ms) const;
  void OnDrain(const Process& process, const std::string& reason);
  bool Needs(uint64_t process) const { return !ended() && partitions_.Needs(process); }
  // --- Reports (active_job_reports.cc) ---
  void OnLaneReport(const Process& process, const LaneReport& report);
  void OnSegment(const Process& process, const MetricSegment& segment);
  void OnWorkerReport(const Process& process, const WorkerJobReport& report);
  void OnServerReport(const Process& process, const ServerJobReport& report);
  void OnError(const JobError& error);
  void OnUnreachable(const Process& process);  // process.unreachable is new

  // --- Work (active_job_work.cc) ---
  bool HasWorkFor(const Process& process);
  absl::optional<NextWorkReply> GiveWork(const Process& process, ThreadId thread, uint32_t carried);
  void Complete(const Process& process, ThreadId thread, const CompletedWork& work);
  void ReturnAllOf(ThreadId thread);
  void LeaveLiveSet(ThreadId thread);
  // bsp: a thread asks for more while it carries fewer logical lanes than this.
  uint32_t AskBelow() const { return rounds_ == nullptr ? 0 : rounds_->lanes(); }
  uint64_t newest_lease() const { return newest_lease_; }  // numbers count up over all jobs; 0: none yet
  // --- Views (active_job_status.cc) ---
  uint64_t id() const { return stored_.id(); }
  uint64_t run() const { return stored_.run(); }
  const Job& job() const { return stored_.job(); }
  const std::string& request_id() const { return stored_.request_id(); }
  bool ended() const { return state() >= SUCCEEDED; }
  bool queued() const { return state() == QUEUED; }
  bool bsp() const { return job().sync().has_bsp(); }
  JobState state() const { return stored_.state(); }
  uint64_t version() const { return version_; }
  JobConfig Config() const;
  JobView View() const;
  JobStatus Status(bool sums) const;
  uint64_t SplitsDone() const;
  JobLogs Logs() const { return log_.ToProto(); }

 private:
  enum class Phase { kNone, kMembers, kPlan, kCheck, kPrepare, kResume, kTrain, kEvaluate, kSave, kCommit, kReports };
  using Group = TaskGroup;
  absl::Duration Now() const { return context_.clock->Now(); }
  void Log(const std::string& event) { log_.Add(event); }
  void Bump();  // a new version, at once
  void Persist() { context_.state->PutJob(stored_); }
  void SetState(JobState state);
  void StopTimer();
  absl::Duration RanFor() const;  // seconds RUNNING
  void SetReason(const std::string& reason);
  void End(JobState state, const std::string& reason);
  void DropEverywhere();

  // Tasks.
  Task NewTask(Task::Kind kind) const;
  void TakeResult(Group group, const Task& task, const Process& process, const TaskResult& result);
  void OnTaskFailed(const Task& task, Group group, const Process& process, const TaskResult& result);
  void Advance();  // does what can be done next
  void ForEachOwner(Group group, const Task& task);

  // Start.
  void AdvanceStart();
  void WaitForMembers();
  void TakePlan(const Process& process, const TaskResult& result);
  void BeginChecks();
  void MakeLedger();
  std::string WaitingFor() const;  // why nothing happens; empty: something does

  // Runs, losses and drains.
  void AdvancePrepare();
  void BeginRun();  // a new one: every lease and task of the one before is void
  bool ResolveResume();
  void FinishPrepare();
  void LoseServer(const Process& process, const std::string& how);
  void BackToTraining();
  void TakeCaughtUp(const TaskResult& result);
  // This checkpoint cannot be read: the one before takes its place. False: there is none.
  bool DropCheckpoint(const std::string& path, const std::string& why);
  void AdvanceMoves();
  void AdvanceLeaving();

  // Audit and end.
  void AdvanceTraining();
  void BeginAudit();
  void CancelAudit();
  void RetryAudit(const std::string& why);  // a little later; in vain for too long, the job fails with it
  void TakeDone(Group group, const TaskResult& result);
  bool CheckReported();
  void FinishAudit();
  void FinishResume();
  void LogTrainedAgain(uint64_t splits, uint64_t examples_before);
  void BeginFinalizing();
  void BeginSave();
  void RetrySave(const std::string& why);
  void FinishSave();
  void AdvanceReports();

  // Checkpoints.
  void BeginCheckpoint();
  void CancelCheckpoint();
  void TakeCheckpointDir(const TaskResult& result);
  void StartCycle(bool final);
  // cut_margin: rounds from the newest one known to the cut; none: at any instant.
  void WriteParts(absl::optional<uint64_t> cut_margin);
  void CutCancelled();  // bsp: chooses the cut by whether rounds progress
  bool CutIsOutOfReach() const;
  void TakePart(const Process& process, const TaskResult& result);
  void TakeDigests(const TaskResult& result);
  void CommitCycle(Group group);
  std::string SerializedManifest() const;
  void TakeCommit(const TaskResult& result);
  void AdvanceCheckpoint();
  void PeriodicFailed(const std::string& why);
  void EndCancelled(const std::string& how);

  NextWorkReply MakeGrant(const LeasedWork& work, bool eval, ThreadId thread);
  uint32_t Share() const;  // bsp: logical lanes that a thread should carry now
  bool AcceptFingerprint(const Process& process);
  void LiveSetChanged();

  const JobEnvironment context_;
  StoredJob stored_;
  EventLog log_;
  uint64_t version_ = 0, live_version_ = 0, next_lane_ = 1, newest_lease_ = 0;
  std::string reason_, warning_, went_back_;  // went_back_: kResume after a restart: what partitions lost, and why
  Phase phase_ = Phase::kNone;
  JobTasks tasks_;
  JobPartitions partitions_;
  Recoveries recoveries_;
  bool placed_ = false;  // kPrepare: the run has a map
  std::unique_ptr<Ledger> ledger_;
  RoundLedger* rounds_ = nullptr;  // ledger_, when bsp
  std::unique_ptr<PassLedger> evaluation_;
  std::unique_ptr<JobMetrics> metrics_;
  LiveSet live_;
  std::set<uint64_t> refused_;    // workers whose fingerprint differs
  std::set<std::string> warned_;  // warnings of servers that are in the log
  bool auditing_ = false;
  std::vector<PartitionDone> reported_;  // of the audit under way
  absl::Duration audit_not_before_, audit_unclean_since_ = absl::InfiniteDuration();
  uint64_t audit_limit_ = 0, rounds_applied_ = 0, unsaved_rounds_ = 0, handed_in_ = 0;  // handed_in_: before a restart
  absl::optional<CheckpointCycle> cycle_;
  absl::Duration next_checkpoint_ = absl::InfiniteDuration();
  std::set<uint64_t> leaving_;                   // draining servers for which a checkpoint was begun
  absl::optional<absl::Duration> cancelled_at_;  // set: the job ends with its next checkpoint
  uint64_t cut_margin_ = 2;                      // rounds between the newest one known and the cut
  uint32_t cut_attempts_ = 0;
  DeltaChain chain_;
  RoundWatch watch_;  // bsp, cancelled

  bool progress_ = false;  // since the last version
  ProgressStore kept_;
  absl::Duration last_bump_, running_since_ = absl::InfiniteDuration(), ran_for_, reports_until_;  // ran_for_: before
};

}  // namespace shoal

#endif  // SHOAL_SCHEDULER_JOBS_ACTIVE_JOB_H_
