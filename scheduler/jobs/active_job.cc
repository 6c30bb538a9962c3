#include "scheduler/jobs/active_job.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

namespace shoal {
namespace {

// Progress is told to those who watch a job this often at most.
constexpr absl::Duration kProgressInterval = absl::Milliseconds(200);
// A cancelled job ends after this long, even if its checkpoint is not complete.
constexpr absl::Duration kCancelPatience = absl::Seconds(60);
// ... and after this long when nobody brings the round at which it is to be cut.
constexpr absl::Duration kOutOfReachPatience = absl::Seconds(10);

}  // namespace

ActiveJob::ActiveJob(const JobEnvironment& context, StoredJob stored)
    : context_(context),
      stored_(std::move(stored)),
      tasks_(context.tasks),
      partitions_(context, &stored_, &tasks_, &log_),
      kept_(context.state) {
  if (stored_.run() == 0) {
    stored_.set_run(1);
    stored_.set_state(QUEUED);
    Persist();
    Log(absl::StrCat("submitted as job ", id(), ": ", job().name()));
  }
  Bump();
}

void ActiveJob::Start() {
  SetState(STARTING);
  phase_ = Phase::kMembers;
  Advance();
}

void ActiveJob::Tick() {
  if (ended()) return;
  if (cancelled_at_.has_value() &&
      Now() - *cancelled_at_ > (CutIsOutOfReach() ? kOutOfReachPatience : kCancelPatience)) {
    EndCancelled("its checkpoint was not complete in time");
    return;
  }
  Advance();
  if (progress_ && Now() - last_bump_ >= kProgressInterval) Bump();
  kept_.Save(id(), Now(), log_, metrics_.get(), recoveries_, RanFor(), SplitsDone());
}

void ActiveJob::Cancel() {
  if (ended()) return;
  const bool trained = phase_ == Phase::kTrain || phase_ == Phase::kEvaluate;
  const bool saving = phase_ == Phase::kSave || phase_ == Phase::kCommit || phase_ == Phase::kReports;
  if (cancelled_at_.has_value() || !job().has_checkpoint() || !(trained || saving)) {
    EndCancelled("");  // nothing to save, or asked for a second time
    return;
  }
  cancelled_at_ = Now();
  Log("cancelled by request; a checkpoint is written first");
  if (phase_ == Phase::kEvaluate) {
    BeginSave();
  } else {
    Advance();
  }
}

void ActiveJob::EndCancelled(const std::string& how) {
  End(CANCELLED, how.empty() ? "cancelled by request" : absl::StrCat("cancelled by request; ", how));
}

void ActiveJob::Fail(const std::string& reason) {
  if (!ended()) End(FAILED, reason);
}

void ActiveJob::OnArrival(const Process& process) {
  if (ended()) return;
  if (process.is(SERVER)) partitions_.OnArrival();
  Advance();
}

void ActiveJob::OnGone(const Process& process, const std::string& how) {
  if (ended()) return;
  if (process.is(SERVER)) {
    if (metrics_ != nullptr) metrics_->ServerGone(process.info.name());
    LoseServer(process, how);
    if (!ended()) Advance();
    return;
  }
  uint64_t leases = ledger_ != nullptr ? ledger_->ReturnAllOf(process.id) : 0;
  if (evaluation_ != nullptr) leases += evaluation_->ReturnAllOf(process.id);
  if (live_.LeaveAllOf(process.id)) LiveSetChanged();
  if (leases > 0) {
    const std::string what = absl::StrCat(process.Title(), " (process ", process.id, ") ", how,
                                          "; leases that are given out again: ", leases);
    Log(what);
    if (phase_ == Phase::kTrain) recoveries_.Begin(what, 0, Now());
    context_.changes->work = true;
  }
  Advance();
}

void ActiveJob::OnTaskResult(const Task& task, const Process& process, const TaskResult& result) {
  const absl::optional<Group> group = tasks_.Take(task.id());
  if (!group.has_value()) return;
  // What a server reports with its last answers is newer than its last heartbeat, which may never come.
  if (result.has_report()) OnServerReport(process, result.report());
  // A server that made the tables before an answer was lost has them now.
  const bool again =
      task.kind() == Task::PREPARE_JOB && result.code() == static_cast<int32_t>(absl::StatusCode::kAlreadyExists);
  if (result.code() == 0 && !result.message().empty()) Log(absl::StrCat(process.Title(), ": ", result.message()));
  // Moves and copies that fail are tried again, at another time and place.
  if (result.code() != 0 && !again && *group != Group::kMove && *group != Group::kBackup) {
    OnTaskFailed(task, *group, process, result);
  } else {
    TakeResult(*group, task, process, result);
  }
  if (!ended()) Advance();
}

void ActiveJob::TakeResult(Group group, const Task& task, const Process& process, const TaskResult& result) {
  switch (group) {
    case Group::kRestore:
      partitions_.OnRestored(task, process);
      break;
    case Group::kCatchUp:
      TakeCaughtUp(result);
      break;
    case Group::kHold:
      partitions_.OnRounds(result);
      break;
    case Group::kMove:
      partitions_.OnMoved(task, process, result);
      break;
    case Group::kBackup:
      partitions_.OnBackup(task, process, result);
      break;
    default:
      if (task.kind() == Task::PLAN) TakePlan(process, result);
      if (task.kind() == Task::CHECK_CHECKPOINT_DIR) TakeCheckpointDir(result);
      if (task.kind() == Task::REPORT_DONE) TakeDone(group, result);
      if (task.kind() == Task::WRITE_PART) TakePart(process, result);
      if (task.kind() == Task::DIGEST) TakeDigests(result);
      if (task.kind() == Task::COMMIT_CHECKPOINT) TakeCommit(result);
  }
}

void ActiveJob::OnTaskFailed(const Task& task, Group group, const Process& process, const TaskResult& result) {
  const absl::StatusCode code = static_cast<absl::StatusCode>(result.code());
  std::string advice;
  if (task.kind() == Task::PREPARE_JOB && code == absl::StatusCode::kNotFound) {
    advice = absl::StrCat("; ", task.restore_from().empty() ? "warm_start.checkpoint" : "--resume",
                          " must name a checkpoint by a path under which every server finds it");
  }
  const std::string why = absl::StrCat(process.Title(), " (process ", process.id, ") ", DescribeFailure(task), ": ",
                                       absl::StatusCodeToString(code), ": ", result.message(), advice);
  if (group == Group::kCheckpoint || group == Group::kCut) {
    PeriodicFailed(why);
    return;
  }
  if (group == Group::kAudit) {
    RetryAudit(why);
    return;
  }
  if (group == Group::kHold || group == Group::kCatchUp) return;  // asked again
  // It has not heard of the job yet, or the cluster has gone on to another run or map meanwhile.
  const bool transient = code == absl::StatusCode::kUnavailable || code == absl::StatusCode::kCancelled ||
                         code == absl::StatusCode::kDeadlineExceeded;
  if (task.kind() == Task::PREPARE_JOB || group == Group::kRestore) {
    if (transient || (group == Group::kRestore && code == absl::StatusCode::kFailedPrecondition)) {
      Log(absl::StrCat(why, "; it is tried again"));
      if (task.kind() == Task::PREPARE_JOB) tasks_.Add(group, process.id, task);
      return;
    }
    // Another job's checkpoint does not become ours by being older: only for what cannot be read there is another one.
    const bool damaged = code == absl::StatusCode::kDataLoss || code == absl::StatusCode::kNotFound;
    if (damaged && !task.restore_from().empty() && DropCheckpoint(task.restore_from(), why)) return;
  }
  Fail(why);
}

void ActiveJob::OnTaskLost(const Task& task) {
  // Who else is to do it, Advance decides when the group is over.
  tasks_.Take(task.id());
}

void ActiveJob::Advance() {
  switch (phase_) {
    case Phase::kNone:
      break;
    case Phase::kMembers:
    case Phase::kPlan:
    case Phase::kCheck:
      AdvanceStart();
      break;
    case Phase::kPrepare:
      AdvancePrepare();
      break;
    case Phase::kResume:
      partitions_.AdvanceRestores();
      if (!partitions_.whole()) break;
      if (!auditing_ && Now() >= audit_not_before_) BeginAudit();
      if (auditing_ && !tasks_.Pending(Group::kAudit)) FinishResume();
      break;
    case Phase::kTrain:
      AdvanceTraining();
      break;
    case Phase::kEvaluate:
      if (evaluation_->AllDone()) BeginSave();
      break;
    case Phase::kSave:
      if (tasks_.Pending(Group::kFinal)) break;
      if (cycle_.has_value()) {
        FinishSave();
      } else if (Now() >= audit_not_before_) {
        BeginSave();
      }
      break;
    case Phase::kCommit:
      break;
    case Phase::kReports:
      AdvanceReports();
      break;
  }
  if (!ended()) SetReason(WaitingFor());
}

void ActiveJob::Bump() {
  version_ = context_.state->Next(Counter::kVersion);
  last_bump_ = Now();
  progress_ = false;
  kept_.Touch();
  context_.changes->jobs = true;
}

absl::Duration ActiveJob::RanFor() const {
  return running_since_ == absl::InfiniteDuration() ? ran_for_ : ran_for_ + (Now() - running_since_);
}

void ActiveJob::StopTimer() {
  ran_for_ = RanFor();
  running_since_ = absl::InfiniteDuration();
}

void ActiveJob::SetState(JobState state) {
  if (state == RUNNING && running_since_ == absl::InfiniteDuration()) running_since_ = Now();
  stored_.set_state(state);
  Persist();
  Log(absl::StrCat("state ", JobState_Name(state)));
  Bump();
  context_.changes->views = true;
  context_.changes->work = true;
}

void ActiveJob::SetReason(const std::string& reason) {
  if (reason == reason_) return;
  reason_ = reason;
  if (!reason.empty()) Log(reason);
  Bump();
}

void ActiveJob::End(JobState state, const std::string& reason) {
  StopTimer();
  reason_ = reason;
  phase_ = Phase::kNone;
  tasks_.CancelAll();
  partitions_.Reset();
  recoveries_.Close(Now());
  DropEverywhere();
  if (!reason.empty()) Log(reason);
  stored_.set_state(state);
  JobStatus final_status = Status(true);
  *stored_.mutable_final_status() = std::move(final_status);
  SetState(state);
  stored_.mutable_final_status()->set_version(version_);
  Persist();
  context_.state->EraseRounds(id());
  kept_.End(id(), log_);
  ledger_.reset();
  rounds_ = nullptr;
  evaluation_.reset();
  metrics_.reset();
  cycle_.reset();
  reported_.clear();
  live_.Clear();
}

void ActiveJob::DropEverywhere() {
  if (queued()) return;
  for (Role role : {SERVER, WORKER}) {
    for (const Process* process : context_.members->Live(role)) {
      context_.tasks->Add(process->id, NewTask(Task::DROP_JOB));
    }
  }
}

Task ActiveJob::NewTask(Task::Kind kind) const {
  Task task;
  task.set_kind(kind);
  task.set_job(id());
  task.set_run(run());
  return task;
}

void ActiveJob::ForEachOwner(Group group, const Task& task) {
  for (uint64_t server : partitions_.map().Owners()) tasks_.Add(group, server, task);
}

}  // namespace shoal
