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

// What the process could not do, as a reason says it.
std::string Failure(const Task& task) {
  switch (task.kind()) {
    case Task::PLAN:
      return "cannot plan the job";
    case Task::CHECK_INPUTS:
      return "cannot read the inputs";
    case Task::CHECK_CHECKPOINT_DIR:
      return absl::StrCat("cannot write checkpoint.dir ", task.job_config().checkpoint().dir());
    case Task::PREPARE_JOB:
      return "cannot make the tables";
    case Task::REPORT_DONE:
      return "cannot report what is done";
    case Task::WRITE_PART:
      return absl::StrCat("cannot write its part of checkpoint ", task.checkpoint().name());
    case Task::COMMIT_CHECKPOINT:
      return absl::StrCat("cannot commit checkpoint ", task.checkpoint().name());
    case Task::DIGEST:
      return "cannot digest its tables";
    default:
      return "failed";
  }
}

}  // namespace

ActiveJob::ActiveJob(const JobEnvironment& context, StoredJob stored) : context_(context), stored_(std::move(stored)) {
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
  } else if (phase_ == Phase::kTrain && !cycle_.has_value()) {
    BeginCheckpoint();
  }
}

void ActiveJob::EndCancelled(const std::string& how) {
  End(CANCELLED, how.empty() ? "cancelled by request" : absl::StrCat("cancelled by request; ", how));
}

void ActiveJob::Fail(const std::string& reason) {
  if (!ended()) End(FAILED, reason);
}

void ActiveJob::OnArrival() {
  if (!ended()) Advance();
}

void ActiveJob::OnGone(const Process& process, const std::string& how) {
  if (ended()) return;
  if (process.is(SERVER) && OwnsPartitions(process.id)) {
    Fail(absl::StrCat(
        process.Title(), " (process ", process.id, ") ", how,
        "; its partitions are lost; last checkpoint: ", stored_.checkpoint().empty() ? "none" : stored_.checkpoint()));
    return;
  }
  uint64_t leases = ledger_ != nullptr ? ledger_->ReturnAllOf(process.id) : 0;
  if (evaluation_ != nullptr) leases += evaluation_->ReturnAllOf(process.id);
  if (live_.LeaveAllOf(process.id)) LiveSetChanged();
  if (leases > 0) {
    Log(absl::StrCat(process.Title(), " (process ", process.id, ") ", how,
                     "; leases that are given out again: ", leases));
    context_.changes->work = true;
  }
  Advance();
}

absl::Status ActiveJob::CheckDrain(const Process& process, uint32_t grace_ms) const {
  if (!Uses(process.id) || grace_ms > 0 || !context_.members->Staying(SERVER).empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(process.Title(), " holds partitions of job ", id(), " (",
                                                    job().name(), "): no other server could take them"));
}

void ActiveJob::OnDrain(const Process& process, const std::string& reason) {
  if (!Uses(process.id)) return;
  Log(absl::StrCat(process.Title(), " is draining", reason.empty() ? "" : ": ", reason));
  Advance();
}

void ActiveJob::OnTaskResult(const Task& task, const Process& process, const TaskResult& result) {
  const auto it = pending_.find(task.id());
  if (it == pending_.end()) return;
  const Group group = it->second.group;
  pending_.erase(it);
  // What a server reports with its last answers is newer than its last heartbeat, which may never come.
  if (result.has_report()) OnServerReport(process, result.report());
  // A server that made the tables before an answer was lost has them now.
  const bool again =
      task.kind() == Task::PREPARE_JOB && result.code() == static_cast<int32_t>(absl::StatusCode::kAlreadyExists);
  if (result.code() == 0 && !result.message().empty()) Log(absl::StrCat(process.Title(), ": ", result.message()));
  if (result.code() != 0 && !again) {
    OnTaskFailed(task, group, process, result);
  } else if (task.kind() == Task::PLAN) {
    TakePlan(process, result);
  } else if (task.kind() == Task::CHECK_CHECKPOINT_DIR) {
    TakeCheckpointDir(result);
  } else if (task.kind() == Task::REPORT_DONE) {
    TakeDone(group, result);
  } else if (task.kind() == Task::WRITE_PART) {
    TakePart(process, result);
  } else if (task.kind() == Task::DIGEST) {
    TakeDigests(result);
  } else if (task.kind() == Task::COMMIT_CHECKPOINT) {
    TakeCommit(result);
  }
  if (!ended()) Advance();
}

void ActiveJob::OnTaskFailed(const Task& task, Group group, const Process& process, const TaskResult& result) {
  const std::string why =
      absl::StrCat(process.Title(), " (process ", process.id, ") ", Failure(task), ": ",
                   absl::StatusCodeToString(static_cast<absl::StatusCode>(result.code())), ": ", result.message());
  if (group == Group::kCheckpoint || group == Group::kCut) {
    PeriodicFailed(why);
  } else {
    Fail(why);
  }
}

void ActiveJob::OnTaskLost(const Task& task) {
  // Who else is to do it, Advance decides when the group is over.
  pending_.erase(task.id());
}

void ActiveJob::Advance() {
  switch (phase_) {
    case Phase::kNone:
      break;
    case Phase::kMembers:
    case Phase::kPlan:
    case Phase::kCheck:
    case Phase::kPrepare:
      AdvanceStart();
      break;
    case Phase::kResume:
      if (!GroupPending(Group::kAudit)) FinishResume();
      break;
    case Phase::kTrain:
      AdvanceTraining();
      break;
    case Phase::kEvaluate:
      if (evaluation_->AllDone()) BeginSave();
      break;
    case Phase::kSave:
      if (!GroupPending(Group::kFinal)) FinishSave();
      break;
    case Phase::kCommit:
      if (!GroupPending(Group::kFinal)) Fail("the server that was to commit the final checkpoint is gone");
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
  context_.changes->jobs = true;
}

void ActiveJob::StopTimer() {
  if (running_since_ != absl::InfiniteDuration()) ran_for_ = Now() - running_since_;
  running_since_ = absl::InfiniteDuration();
}

void ActiveJob::SetState(JobState state) {
  if (state == RUNNING) running_since_ = Now();
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
  for (const auto& [task, pending] : pending_) context_.tasks->Remove(task);
  pending_.clear();
  DropEverywhere();
  if (!reason.empty()) Log(reason);
  stored_.set_state(state);
  JobStatus final_status = Status(true);
  *stored_.mutable_final_status() = std::move(final_status);
  SetState(state);
  stored_.mutable_final_status()->set_version(version_);
  Persist();
  context_.state->EraseRounds(id());
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

void ActiveJob::AddTask(Group group, uint64_t process, Task task) {
  pending_[context_.tasks->Add(process, std::move(task))] = {group, process};
}

Task ActiveJob::NewTask(Task::Kind kind) const {
  Task task;
  task.set_kind(kind);
  task.set_job(id());
  task.set_run(run());
  return task;
}

bool ActiveJob::GroupPending(Group group) const {
  return std::any_of(pending_.begin(), pending_.end(),
                     [group](const auto& entry) { return entry.second.group == group; });
}

void ActiveJob::CancelGroup(Group group) {
  for (auto it = pending_.begin(); it != pending_.end();) {
    if (it->second.group != group) {
      ++it;
      continue;
    }
    context_.tasks->Remove(it->first);
    it = pending_.erase(it);
  }
}

bool ActiveJob::OwnsPartitions(uint64_t process) const {
  return stored_.map_version() != 0 &&
         std::any_of(stored_.servers().begin(), stored_.servers().end(),
                     [process](const ServerAddress& server) { return server.process() == process; });
}

void ActiveJob::ForEachServer(Group group, const Task& task) {
  for (const ServerAddress& server : stored_.servers()) AddTask(group, server.process(), task);
}

}  // namespace shoal
