// Runs, losses of servers, drains.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "scheduler/jobs/active_job.h"
#include "scheduler/jobs/job_check.h"

namespace shoal {

bool ActiveJob::ResolveResume() {
  if (stored_.resume().empty()) return true;
  if (stored_.resume() != kLatest) stored_.set_restore_from(stored_.resume());
  if (stored_.restore_from().empty()) {
    Fail(absl::StrCat("resume: checkpoint.dir ", job().checkpoint().dir(), " holds no checkpoint to go on from",
                      warning_.empty() ? "" : "; ", warning_));
    return false;
  }
  stored_.set_checkpoint(stored_.restore_from());
  if (stored_.checkpoints().empty()) stored_.add_checkpoints(stored_.restore_from());
  return true;
}

void ActiveJob::BeginRun() {
  tasks_.CancelAll();
  partitions_.Reset();
  CancelCheckpoint();
  CancelAudit();
  ledger_.reset();
  rounds_ = nullptr;
  evaluation_.reset();
  if (metrics_ != nullptr) metrics_->BeginRun();
  live_.Clear();
  next_lane_ = context_.state->Peek(Counter::kLane);
  LiveSetChanged();
  context_.state->EraseRounds(id());
  rounds_applied_ = unsaved_rounds_ = handed_in_ = 0;
  watch_.since.reset();
  stored_.set_run(run() + 1);
  stored_.set_restore_from(stored_.checkpoint());
  stored_.set_preparing(true);
  Persist();
  placed_ = false;
  phase_ = Phase::kPrepare;
  if (state() == FINALIZING) SetState(RUNNING);
}

void ActiveJob::AdvancePrepare() {
  if (tasks_.Pending(Group::kStart)) return;
  if (placed_) {
    FinishPrepare();
    return;
  }
  stored_.set_preparing(true);
  placed_ = partitions_.PlaceAll();
  if (!placed_) return;
  Task task = NewTask(Task::PREPARE_JOB);
  task.set_restore_from(stored_.restore_from());
  ForEachOwner(Group::kStart, task);
}

void ActiveJob::FinishPrepare() {
  MakeLedger();
  phase_ = Phase::kResume;
  if (!stored_.restore_from().empty()) {
    audit_not_before_ = Now();
    Advance();
    return;
  }
  // New tables: nothing is done.
  stored_.set_preparing(false);
  phase_ = Phase::kTrain;
  if (job().checkpoint().every() > 0) next_checkpoint_ = Now() + absl::Milliseconds(job().checkpoint().every());
  Persist();
  if (state() != RUNNING) SetState(RUNNING);
  context_.changes->work = true;
  context_.changes->views = true;
}

void ActiveJob::LoseServer(const Process& process, const std::string& how) {
  const bool used = partitions_.map().Uses(process.id);
  leaving_.erase(process.id);
  const std::string who = absl::StrCat(process.Title(), " (process ", process.id, ") ", how);
  const bool preparing = phase_ == Phase::kPrepare || (phase_ == Phase::kResume && stored_.preparing());
  if (used && preparing) {
    Log(absl::StrCat(who, " before the tables were made; they are made again"));
    BeginRun();
    return;
  }
  // The final checkpoint is there, or there is to be none: nothing of the server is needed any more.
  if (phase_ == Phase::kReports) return;
  if (used && bsp()) {
    if (cancelled_at_.has_value()) {
      EndCancelled(
          absl::StrCat(who, "; last checkpoint: ", stored_.checkpoint().empty() ? "none" : stored_.checkpoint()));
      return;
    }
    const std::string what = absl::StrCat(who, ": all partitions go back to ",
                                          stored_.checkpoint().empty() ? "the beginning" : stored_.checkpoint());
    Log(what);
    recoveries_.Begin(what, job().partitions(), Now());
    BeginRun();
    return;
  }
  const PartitionLoss loss = partitions_.Lose(process.id);
  if (!loss.any()) return;
  const uint32_t concerned = static_cast<uint32_t>(loss.lost.size() + loss.promoted.size());
  std::string what = who;
  if (!loss.promoted.empty()) absl::StrAppend(&what, ": ", loss.promoted.size(), " partitions go to their backups");
  if (!loss.lost.empty()) {
    absl::StrAppend(&what, ": ", loss.lost.size(), " partitions go back to ",
                    stored_.checkpoint().empty() ? "nothing, as there is no checkpoint" : stored_.checkpoint());
  }
  if (concerned == 0) absl::StrAppend(&what, ": ", loss.backups, " partitions have no backup now");
  Log(what);
  if (concerned == 0) return;
  if (phase_ == Phase::kResume && !loss.lost.empty()) went_back_ = what;
  recoveries_.Begin(what, concerned, Now());
  BackToTraining();
}

// What was found out or saved of a job that was about to end does not hold any more.
void ActiveJob::BackToTraining() {
  CancelAudit();
  audit_not_before_ = Now();
  if (ledger_ != nullptr) ledger_->AuditAgain();
  if (cycle_.has_value()) Log(absl::StrCat("checkpoint ", cycle_->task.name(), " is given up"));
  CancelCheckpoint();
  tasks_.Cancel(Group::kFinal);
  if (job().checkpoint().every() > 0) next_checkpoint_ = Now() + context_.heartbeat;
  evaluation_.reset();
  if (phase_ != Phase::kResume) phase_ = Phase::kTrain;
  if (state() == FINALIZING) SetState(RUNNING);
}

void ActiveJob::TakeCaughtUp(const TaskResult& result) {
  const std::vector<PartitionDone> back = partitions_.TakeCaughtUp(result);
  // After a restart of the scheduler the ledger is made of all done sets, when all are there.
  if (back.empty() || phase_ == Phase::kResume) return;
  const uint64_t again = ledger_->FallBack(Intersect(back, ledger_->splits_in_all()));
  recoveries_.AddSplitsAgain(again);
  if (again > 0) {
    Log(absl::StrCat(back.size(), " partitions miss ", again, " splits that were handed in; they are leased again"));
  }
  context_.changes->work = true;
}

bool ActiveJob::DropCheckpoint(const std::string& path, const std::string& why) {
  auto* const checkpoints = stored_.mutable_checkpoints();
  // Several servers find the same damage.
  if (path != stored_.checkpoint()) {
    Log(why);
    return true;
  }
  if (checkpoints->size() < 2) return false;
  checkpoints->RemoveLast();
  // No delta may build on it.
  chain_.parent.clear();
  stored_.set_checkpoint(checkpoints->Get(checkpoints->size() - 1));
  warning_ = absl::StrCat(why, "; the checkpoint before it takes its place: ", stored_.checkpoint());
  Log(warning_);
  Persist();
  if (phase_ == Phase::kPrepare) BeginRun();  // others may have loaded the newer one
  return true;
}

absl::Status ActiveJob::CheckDrain(const Process& process, uint32_t grace_ms) const {
  if (!Needs(process.id) || grace_ms > 0) return absl::OkStatus();
  for (const Process* server : context_.members->Staying(SERVER)) {
    if (server->id != process.id) return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat(process.Title(), " holds partitions of job ", id(), " (", job().name(),
                   ") and is the last server: start another one first, or give it a grace after which it goes anyway"));
}

void ActiveJob::OnDrain(const Process& process, const std::string& reason) {
  if (ended() || !partitions_.map().Uses(process.id)) return;
  std::string left;
  if (process.exits_at() != absl::InfiniteDuration()) {
    const absl::Duration grace = std::max(process.exits_at() - Now(), absl::ZeroDuration());
    left = absl::StrCat(" and goes in ", absl::FormatDuration(absl::Ceil(grace, absl::Milliseconds(1))));
  }
  Log(absl::StrCat(process.Title(), " is draining", left, reason.empty() ? "" : ": ", reason));
  Advance();
}

void ActiveJob::AdvanceMoves() {
  AdvanceLeaving();
  const bool calm = !auditing_ && !cycle_.has_value() && !cancelled_at_.has_value();
  partitions_.AdvanceMoves(calm);
  const absl::optional<uint64_t> moved_at = partitions_.TakeMoved();
  if (!moved_at.has_value()) return;
  rounds_->AfterMove(*moved_at);
  context_.state->PutRounds(id(), rounds_->Snapshot());
  context_.changes->work = true;
}

// A server that goes away before its partitions have: a checkpoint now leaves less to do again.
void ActiveJob::AdvanceLeaving() {
  const size_t staying = context_.members->Staying(SERVER).size();
  for (const Process* server : context_.members->Live(SERVER)) {
    if (!server->draining || server->exits_at() == absl::InfiniteDuration() || !partitions_.Needs(server->id)) continue;
    if (leaving_.count(server->id) > 0) {
      if (!cycle_.has_value() && cut_attempts_ == 0) partitions_.LetGo(server->id);  // it is there, or cannot be had
      continue;
    }
    if (!job().has_checkpoint()) continue;  // its moves have all of the grace
    if (staying > 0 && Now() < server->draining_since + server->drain_grace / 2) continue;
    leaving_.insert(server->id);
    Log(absl::StrCat(server->Title(), " leaves before its partitions can be moved: a checkpoint is written first"));
    partitions_.CancelMoves();
    if (!cycle_.has_value()) BeginCheckpoint();
  }
}

}  // namespace shoal
