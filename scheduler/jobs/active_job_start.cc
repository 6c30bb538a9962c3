// STARTING: members, plan, preflight, tables; and going on after a restart of the scheduler.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "scheduler/jobs/active_job.h"
#include "scheduler/jobs/job_check.h"
#include "scheduler/placement/placement.h"

namespace shoal {

std::string ActiveJob::WaitingFor() const {
  const size_t servers = context_.members->Staying(SERVER).size(), workers = context_.members->CountLive(WORKER);
  if (phase_ == Phase::kMembers) {
    const uint64_t wanted = std::max<uint64_t>(1, job().workers().min());
    std::string missing;
    if (servers == 0) missing = "a server (none is alive)";
    if (workers < wanted) {
      absl::StrAppend(&missing, missing.empty() ? "" : " and for ", wanted, " workers (", workers, " alive)");
    }
    return missing.empty() ? "" : absl::StrCat("waiting for ", missing);
  }
  if (phase_ == Phase::kPrepare && !placed_) {
    return absl::StrCat("waiting for a server (none is alive) to go on from ",
                        stored_.restore_from().empty() ? "the beginning" : stored_.restore_from());
  }
  const std::string lost = partitions_.Waiting();
  if (!lost.empty()) return lost;
  if (phase_ == Phase::kResume && !stored_.preparing()) {
    return "recovering after a restart of the scheduler: waiting for the owners of all partitions to report";
  }
  const bool needs_workers = phase_ == Phase::kTrain || phase_ == Phase::kEvaluate;
  if (needs_workers && workers == 0) return "waiting for a worker (none is alive)";
  if (needs_workers && !stored_.fingerprint().empty() && refused_.size() >= workers && live_.lanes().empty()) {
    return absl::StrCat("waiting for a worker whose compute fingerprint is ", stored_.fingerprint());
  }
  const std::string backups = phase_ == Phase::kTrain ? partitions_.BackupWarning() : "";
  return backups.empty() ? warning_ : backups;
}

void ActiveJob::AdvanceStart() {
  if (tasks_.Pending(Group::kStart)) return;
  if (phase_ != Phase::kCheck) {  // kPlan: the planner is gone: another one
    WaitForMembers();
    return;
  }
  if (context_.members->Staying(SERVER).empty()) {
    phase_ = Phase::kMembers;  // all of them are gone; the plan is made again with the next
    return;
  }
  if (!ResolveResume()) return;
  next_lane_ = context_.state->Peek(Counter::kLane);
  live_version_ = context_.state->Next(Counter::kVersion);
  phase_ = Phase::kPrepare;
  AdvancePrepare();
}

void ActiveJob::WaitForMembers() {
  phase_ = Phase::kMembers;
  if (!WaitingFor().empty()) return;
  phase_ = Phase::kPlan;
  Task task = NewTask(Task::PLAN);
  *task.mutable_job_config() = job();
  tasks_.Add(Group::kStart, context_.members->Live(WORKER).front()->id, std::move(task));
}

void ActiveJob::TakePlan(const Process& process, const TaskResult& result) {
  const absl::Status status = CheckPlan(job(), result.plan());
  if (!status.ok()) {
    Fail(absl::StrCat("plan of ", process.Title(), ": ", status.message()));
    return;
  }
  *stored_.mutable_plan() = result.plan();
  Log(absl::StrCat("planned by ", process.Title(), ": ", result.plan().train().splits_size(), " splits a pass, ",
                   result.plan().eval().splits_size(), " to evaluate"));
  const std::string warning = PlanWarning(job(), result.plan());
  if (!warning.empty()) Log(absl::StrCat("warning: ", warning));
  BeginChecks();
}

void ActiveJob::BeginChecks() {
  phase_ = Phase::kCheck;
  Task task = NewTask(Task::CHECK_INPUTS);
  *task.mutable_job_config() = job();
  for (const Process* worker : context_.members->Live(WORKER)) tasks_.Add(Group::kStart, worker->id, task);
  task.set_kind(Task::CHECK_CHECKPOINT_DIR);
  for (const Process* server : context_.members->Staying(SERVER)) {
    if (job().has_checkpoint()) tasks_.Add(Group::kStart, server->id, task);
  }
}

void ActiveJob::MakeLedger() {
  const uint64_t splits = stored_.plan().train().splits_size();
  // A run that goes back keeps what is counted of the examples: they are the same.
  if (metrics_ == nullptr) metrics_ = std::make_unique<JobMetrics>(stored_.plan(), job().seed());
  rounds_ = nullptr;
  if (bsp()) {
    auto ledger = std::make_unique<RoundLedger>(splits, job().data().passes(), job().sync().bsp().lanes());
    rounds_ = ledger.get();
    ledger_ = std::move(ledger);
  } else {
    ledger_ = std::make_unique<PassLedger>(splits, job().data().passes());
  }
}

void ActiveJob::Resume(const StoredLife& life) {
  if (life.log != nullptr) log_.Load(*life.log);
  if (ended()) {
    reason_ = stored_.final_status().reason();
    version_ = stored_.final_status().version();
    return;
  }
  if (queued()) return;
  Log("the scheduler was restarted");
  // Lanes of the life before are out: they push nothing more and ask for new work.
  next_lane_ = context_.state->Peek(Counter::kLane);
  live_version_ = context_.state->Next(Counter::kVersion);
  if (state() == STARTING && stored_.map_version() == 0) {
    stored_.set_state(QUEUED);
    Persist();
    return;
  }
  if (life.progress != nullptr) {
    recoveries_.Load(*life.progress, Now());
    ran_for_ = absl::Seconds(life.progress->ran_seconds());
    handed_in_ = life.progress->splits_done();
    metrics_ = std::make_unique<JobMetrics>(stored_.plan(), job().seed());
    // What cannot be read is counted anew; nothing else depends on it.
    if (!metrics_->Load(*life.progress).ok()) metrics_ = std::make_unique<JobMetrics>(stored_.plan(), job().seed());
  }
  partitions_.Load();
  std::vector<Process> gone;
  for (const ServerAddress& address : stored_.servers()) {
    const Process* const server = context_.members->Find(address.process());
    if (server != nullptr && server->alive()) continue;
    Process& process = gone.emplace_back();
    process.id = address.process();
    process.info.set_name(address.name());
    process.info.set_role(SERVER);
  }
  if (stored_.preparing()) {
    phase_ = Phase::kPrepare;
    if (!gone.empty()) {
      BeginRun();
    } else if (!partitions_.map().empty()) {
      placed_ = true;
      Task task = NewTask(Task::PREPARE_JOB);
      task.set_restore_from(stored_.restore_from());
      ForEachOwner(Group::kStart, task);
    }
    return;
  }
  MakeLedger();
  if (rounds_ != nullptr && life.rounds != nullptr && !rounds_->Restore(*life.rounds)) {
    Fail("the stored progress of the logical lanes is of another job");
    return;
  }
  phase_ = Phase::kResume;
  SetState(RUNNING);
  for (const Process& server : gone) LoseServer(server, "is gone");
  Advance();
}

// What was counted before a restart of the scheduler and is not in all partitions now.
void ActiveJob::LogTrainedAgain(uint64_t splits, uint64_t examples_before) {
  const uint64_t handed_in = std::exchange(handed_in_, 0);
  const std::string why = std::exchange(went_back_, "");
  const uint64_t again = handed_in - std::min(handed_in, splits);
  const uint64_t examples = examples_before - std::min(examples_before, metrics_->examples());
  // bsp: what partitions have not applied yet of the last rounds they hold already; a loss takes all of them back.
  if (bsp() || (again == 0 && examples == 0)) return;
  recoveries_.AddSplitsAgain(again);
  Log(absl::StrCat("trained again, though counted before the restart: ", again, " splits that were handed in, ",
                   examples, " examples; ", why.empty() ? "partitions do not have them" : why));
}

void ActiveJob::FinishResume() {
  if (!CheckReported()) return;
  auditing_ = false;
  const DoneSet truth = Intersect(reported_, ledger_->splits_in_all());
  if (rounds_ == nullptr) {
    static_cast<PassLedger*>(ledger_.get())->Rebuild(truth);
  } else if (stored_.preparing()) {
    const absl::Status rebuilt = rounds_->Rebuild(reported_, job().batch().size());
    if (!rebuilt.ok()) {
      Fail(absl::StrCat("checkpoint ", stored_.restore_from(), ": ", rebuilt.message()));
      return;
    }
    rounds_applied_ = reported_[0].rounds_applied();
    context_.state->PutRounds(id(), rounds_->Snapshot());
  }
  if (!stored_.preparing()) {
    const uint64_t examples = metrics_->examples();
    metrics_->Settle(reported_, truth);
    LogTrainedAgain(truth.size(), examples);
  } else if (metrics_->examples() == 0) {
    metrics_->GoOnFrom(reported_, truth);  // else it goes back: examples that are counted are the same
  }
  Log(absl::StrCat("done in all partitions: ", truth.size(), " of ", ledger_->splits_in_all(), " splits"));
  reported_.clear();
  stored_.set_preparing(false);
  phase_ = Phase::kTrain;
  if (job().checkpoint().every() > 0) next_checkpoint_ = Now() + absl::Milliseconds(job().checkpoint().every());
  if (state() != RUNNING) SetState(RUNNING);
  Persist();
  context_.changes->work = true;
  Bump();
}

}  // namespace shoal
