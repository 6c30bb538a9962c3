// STARTING: members, plan, preflight, tables; and going on after a restart of the scheduler.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "scheduler/jobs/active_job.h"
#include "scheduler/jobs/job_check.h"
#include "scheduler/placement/placement.h"

namespace shoal {

std::string ActiveJob::WaitingFor() const {
  const size_t servers = context_.members->CountLive(SERVER), workers = context_.members->CountLive(WORKER);
  if (phase_ == Phase::kMembers) {
    const uint64_t wanted = std::max<uint64_t>(1, job().workers().min());
    std::string missing;
    if (servers == 0) missing = "a server (none is alive)";
    if (workers < wanted) {
      absl::StrAppend(&missing, missing.empty() ? "" : " and for ", wanted, " workers (", workers, " alive)");
    }
    return missing.empty() ? "" : absl::StrCat("waiting for ", missing);
  }
  const bool needs_workers = phase_ == Phase::kTrain || phase_ == Phase::kEvaluate;
  if (needs_workers && workers == 0) return "waiting for a worker (none is alive)";
  if (needs_workers && !stored_.fingerprint().empty() && refused_.size() >= workers && live_.lanes().empty()) {
    return absl::StrCat("waiting for a worker whose compute fingerprint is ", stored_.fingerprint());
  }
  return warning_;
}

void ActiveJob::AdvanceStart() {
  if (GroupPending(Group::kStart)) return;
  switch (phase_) {
    case Phase::kMembers:
    case Phase::kPlan:  // the planner is gone: another one
      WaitForMembers();
      break;
    case Phase::kCheck:
      BeginPrepare();
      break;
    default:
      BeginTraining();
      break;
  }
}

void ActiveJob::WaitForMembers() {
  phase_ = Phase::kMembers;
  if (!WaitingFor().empty()) return;
  phase_ = Phase::kPlan;
  Task task = NewTask(Task::PLAN);
  *task.mutable_job_config() = job();
  AddTask(Group::kStart, context_.members->Live(WORKER).front()->id, std::move(task));
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
  BeginChecks();
}

void ActiveJob::BeginChecks() {
  phase_ = Phase::kCheck;
  Task task = NewTask(Task::CHECK_INPUTS);
  *task.mutable_job_config() = job();
  for (const Process* worker : context_.members->Live(WORKER)) AddTask(Group::kStart, worker->id, task);
  candidates_.clear();
  task.set_kind(Task::CHECK_CHECKPOINT_DIR);
  for (const Process* server : context_.members->Live(SERVER)) {
    candidates_.push_back(server->id);
    if (job().has_checkpoint()) AddTask(Group::kStart, server->id, task);
  }
}

void ActiveJob::BeginPrepare() {
  stored_.clear_servers();
  for (uint64_t id : candidates_) {
    const Process* const server = context_.members->Find(id);
    // More servers than partitions: the rest stays without.
    if (server == nullptr || !server->alive() || stored_.servers_size() >= static_cast<int>(job().partitions()))
      continue;
    ServerAddress* const address = stored_.add_servers();
    address->set_process(id);
    address->set_name(server->info.name());
    address->set_address(server->info.address());
  }
  if (stored_.servers().empty()) {
    phase_ = Phase::kMembers;  // all of them are gone; the plan is made again with the next
    return;
  }
  const std::vector<uint32_t> owner = PlacePartitions(job().partitions(), stored_.servers_size());
  stored_.mutable_owner()->Assign(owner.begin(), owner.end());
  stored_.set_map_version(1);
  next_lane_ = context_.state->Peek(Counter::kLane);
  live_version_ = context_.state->Next(Counter::kVersion);
  Persist();
  context_.changes->views = true;
  phase_ = Phase::kPrepare;
  ForEachServer(Group::kStart, NewTask(Task::PREPARE_JOB));
}

void ActiveJob::MakeLedger() {
  const uint64_t splits = stored_.plan().train().splits_size();
  metrics_ = std::make_unique<JobMetrics>(splits);
  if (bsp()) {
    auto ledger = std::make_unique<RoundLedger>(splits, job().data().passes(), job().sync().bsp().lanes());
    rounds_ = ledger.get();
    ledger_ = std::move(ledger);
  } else {
    ledger_ = std::make_unique<PassLedger>(splits, job().data().passes());
  }
}

void ActiveJob::BeginTraining() {
  MakeLedger();
  phase_ = Phase::kTrain;
  if (job().checkpoint().every() > 0) next_checkpoint_ = Now() + absl::Milliseconds(job().checkpoint().every());
  SetState(RUNNING);
}

void ActiveJob::Resume(const StoredRounds* rounds) {
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
  for (const ServerAddress& address : stored_.servers()) {
    const Process* const server = context_.members->Find(address.process());
    if (server == nullptr || !server->alive()) {
      Fail(absl::StrCat("server ", address.name(), " (process ", address.process(),
                        ") is gone; its partitions are lost; last checkpoint: ",
                        stored_.checkpoint().empty() ? "none" : stored_.checkpoint()));
      return;
    }
  }
  if (state() == STARTING) {
    phase_ = Phase::kPrepare;
    ForEachServer(Group::kStart, NewTask(Task::PREPARE_JOB));
    return;
  }
  MakeLedger();
  if (rounds_ != nullptr && rounds != nullptr && !rounds_->Restore(*rounds)) {
    Fail("the stored progress of the logical lanes is of another job");
    return;
  }
  phase_ = Phase::kResume;
  SetState(RUNNING);
  BeginAudit();
}

void ActiveJob::FinishResume() {
  if (!CheckReported()) return;
  if (rounds_ == nullptr) {
    const DoneSet truth = Intersect(reported_, ledger_->splits_in_all());
    static_cast<PassLedger*>(ledger_.get())->Rebuild(truth);
    Log(absl::StrCat("done in all partitions: ", truth.size(), " of ", ledger_->splits_in_all(), " splits"));
  }
  reported_.clear();
  phase_ = Phase::kTrain;
  if (job().checkpoint().every() > 0) next_checkpoint_ = Now() + absl::Milliseconds(job().checkpoint().every());
  context_.changes->work = true;
  Bump();
}

}  // namespace shoal
