// Leases: work for the threads of workers.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "scheduler/jobs/active_job.h"

namespace shoal {
namespace {

// bsp: completed leases that may be missing from the stored progress: one in this many logical lanes.
constexpr uint64_t kSnapshotShare = 64;

}  // namespace

bool ActiveJob::HasWorkFor(const Process& process) {
  if (phase_ == Phase::kEvaluate) return evaluation_->HasWork();
  return phase_ == Phase::kTrain && ledger_->HasWork() && AcceptFingerprint(process);
}

bool ActiveJob::AcceptFingerprint(const Process& process) {
  const std::string& pinned = stored_.fingerprint();
  if (!bsp() || pinned.empty() || pinned == process.info.fingerprint()) return true;
  if (refused_.insert(process.id).second) {
    Log(absl::StrCat(process.Title(), " is refused: its compute fingerprint is ", process.info.fingerprint(),
                     ", this bsp job is pinned to ", pinned));
  }
  return false;
}

// A thread that asked only below a share told earlier would not learn that others have died: it is told all lanes, and
// what it gets is bounded by its share of the moment.
uint32_t ActiveJob::Share() const {
  if (rounds_ == nullptr) return 0;
  const std::string& pinned = stored_.fingerprint();
  const uint32_t threads =
      std::max<uint32_t>(1, context_.threads->CountFor(id(), Now() - context_.deadline, [&](uint64_t process) {
        const Process* const worker = context_.members->Find(process);
        return worker != nullptr && worker->alive() && (pinned.empty() || worker->info.fingerprint() == pinned);
      }));
  return (rounds_->lanes() + threads - 1) / threads;
}

absl::optional<NextWorkReply> ActiveJob::GiveWork(const Process& process, ThreadId thread, uint32_t carried) {
  if (!HasWorkFor(process)) return absl::nullopt;
  if (phase_ == Phase::kEvaluate) {
    return MakeGrant(*evaluation_->Take(context_.state->Next(Counter::kLease), thread), true, thread);
  }
  if (bsp()) {
    if (carried >= Share()) return absl::nullopt;
    if (stored_.fingerprint().empty() && !process.info.fingerprint().empty()) {
      stored_.set_fingerprint(process.info.fingerprint());
      Persist();
    }
  }
  if (live_.Find(thread) == 0) {
    const uint64_t lane = context_.state->Next(Counter::kLane);
    next_lane_ = lane + 1;
    recoveries_.OnGrant(lane, live_.Join(lane, thread).clock);
    metrics_->NameLane(lane, process.info.name(), live_.LanesOf(process.id));
    LiveSetChanged();
  }
  return MakeGrant(*ledger_->Take(context_.state->Next(Counter::kLease), thread), false, thread);
}

NextWorkReply ActiveJob::MakeGrant(const LeasedWork& work, bool eval, ThreadId thread) {
  newest_lease_ = work.lease;
  NextWorkReply reply;
  reply.set_kind(work.lane_finished ? NextWorkReply::LANE_FINISHED : NextWorkReply::GRANT);
  Grant* const grant = reply.mutable_grant();
  grant->set_job(id());
  grant->set_run(run());
  grant->set_eval(eval);
  grant->set_pass(work.pass);
  grant->set_split(work.split);
  grant->set_lease(work.lease);
  grant->set_batch_size(job().batch().size());
  if (eval) return reply;
  const uint64_t lane = live_.Find(thread);
  grant->set_lane(lane);
  grant->set_clock(live_.lanes().at(lane).clock);
  grant->set_logical_lane(work.logical_lane);
  grant->set_first_round(work.first_round);
  if (!work.lane_finished) grant->set_counted(metrics_->Lease(work.pass, work.split, run() == 1));
  reply.set_share(AskBelow());
  return reply;
}

void ActiveJob::Complete(const Process& process, ThreadId thread, const CompletedWork& work) {
  if (ended() || work.run() != run() || ledger_ == nullptr) return;
  const bool eval = evaluation_ != nullptr && evaluation_->Find(work.lease(), thread) != nullptr;
  Ledger* const ledger = eval ? evaluation_.get() : ledger_.get();
  // A lease that was taken from the thread meanwhile belongs to its successor now.
  if (ledger->Find(work.lease(), thread) == nullptr) return;
  if (!work.error().empty()) {
    Fail(absl::StrCat(process.Title(), ": ", work.error()));
    return;
  }
  const uint64_t lane = live_.Find(thread);
  live_.Report(lane, thread.process, work.clock());
  if (lane != 0) recoveries_.OnClock(lane, work.clock(), partitions_.whole(), Now());
  progress_ = true;
  if (!work.finished()) {
    ledger->Return(work.lease(), thread);
    context_.changes->work = true;
    return;
  }
  const LeasedWork done = *ledger->Complete(work.lease(), thread, work.next_round());
  if (eval) {
    const absl::Status status = metrics_->AddEval(work.eval());
    if (!status.ok()) Fail(absl::StrCat(process.Title(), ": evaluation metrics: ", status.message()));
  } else if (!done.lane_finished) {
    metrics_->ExpectRecords(done.pass, done.split, work.records());
  }
  if (rounds_ != nullptr && !eval) {
    // Written less often the more lanes there are, so that it costs the same per lease. After a restart, workers find
    // the splits that the snapshot does not know done at the servers.
    if (++unsaved_rounds_ * kSnapshotShare >= rounds_->lanes() || rounds_->AllDone()) {
      context_.state->PutRounds(id(), rounds_->Snapshot());
      unsaved_rounds_ = 0;
    }
    context_.changes->work = true;  // the logical lane is free again
  }
  if (!ended()) Advance();
}

void ActiveJob::ReturnAllOf(ThreadId thread) {
  const uint64_t leases = (ledger_ != nullptr ? ledger_->ReturnAllOf(thread) : 0) +
                          (evaluation_ != nullptr ? evaluation_->ReturnAllOf(thread) : 0);
  if (leases > 0) context_.changes->work = true;
}

void ActiveJob::LeaveLiveSet(ThreadId thread) {
  if (ledger_ != nullptr && ledger_->LeasesOf(thread) > 0) return;
  if (live_.Leave(thread)) LiveSetChanged();
}

void ActiveJob::LiveSetChanged() {
  live_version_ = context_.state->Next(Counter::kVersion);
  context_.changes->views = true;
  progress_ = true;
}

}  // namespace shoal
