// RUNNING to SUCCEEDED: audits of the ledger, evaluation, final checkpoint.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "scheduler/jobs/active_job.h"

namespace shoal {
namespace {

// bsp: a server applies the last rounds as marks come in; an audit that is early is repeated, within a bound.
constexpr absl::Duration kAuditRetry = absl::Milliseconds(100);
constexpr absl::Duration kAuditPatience = absl::Seconds(30);

}  // namespace

void ActiveJob::AdvanceTraining() {
  AdvanceCheckpoint();
  if (ended() || GroupPending(Group::kAudit)) return;
  if (audit_limit_ != 0) {
    FinishAudit();
    if (ended() || phase_ != Phase::kTrain) return;
  }
  if (ledger_->AuditDue() && Now() >= audit_not_before_) BeginAudit();
}

void ActiveJob::BeginAudit() {
  reported_.clear();
  audit_limit_ = ledger_->AuditLimit();
  ForEachServer(Group::kAudit, NewTask(Task::REPORT_DONE));
}

void ActiveJob::TakeDone(Group group, const TaskResult& result) {
  for (const PartitionDone& done : result.done()) {
    if (group == Group::kAudit) reported_.push_back(done);
    rounds_applied_ = std::max<uint64_t>(rounds_applied_, done.rounds_applied());
  }
}

bool ActiveJob::CheckReported() {
  std::vector<uint32_t> seen(job().partitions());
  for (const PartitionDone& done : reported_) {
    if (done.partition() < seen.size()) ++seen[done.partition()];
  }
  for (uint32_t p = 0; p < seen.size(); ++p) {
    if (seen[p] == 1) continue;
    Fail(absl::StrCat("partition ", p, " was reported by ", seen[p], " servers, its owner is server ",
                      stored_.servers(stored_.owner(p)).name()));
    return false;
  }
  return true;
}

void ActiveJob::FinishAudit() {
  if (!CheckReported()) return;
  const uint64_t limit = std::exchange(audit_limit_, 0);
  const DoneSet truth = Intersect(reported_, limit);
  reported_.clear();
  const uint64_t missing = ledger_->Reconcile(truth, limit);
  if (missing == 0) {
    audit_unclean_since_ = absl::InfiniteDuration();
    if (ledger_->AllDone() && ledger_->Audited()) BeginFinalizing();
    return;
  }
  if (rounds_ == nullptr) {
    Log(absl::StrCat("audit: partitions miss ", missing, " splits that were handed in; they are leased again"));
    context_.changes->work = true;
    return;
  }
  audit_not_before_ = Now() + kAuditRetry;
  audit_unclean_since_ = std::min(audit_unclean_since_, Now());
  if (Now() - audit_unclean_since_ > kAuditPatience) {
    Fail(absl::StrCat("audit: all logical lanes are finished, but partitions miss ", missing, " splits after ",
                      rounds_applied_, " rounds"));
  }
}

void ActiveJob::BeginFinalizing() {
  Log(absl::StrCat("all ", ledger_->splits_in_all(), " splits are done in all partitions"));
  // The final checkpoint takes the place of one under way.
  CancelGroup(Group::kCheckpoint);
  CancelGroup(Group::kCut);
  cycle_.reset();
  next_checkpoint_ = absl::InfiniteDuration();
  StopTimer();
  reports_until_ = Now() + context_.deadline;
  if (!live_.lanes().empty()) {
    live_.Clear();
    LiveSetChanged();
  }
  evaluation_ = std::make_unique<PassLedger>(stored_.plan().eval().splits_size(), 1);
  phase_ = Phase::kEvaluate;
  SetState(FINALIZING);
  if (evaluation_->AllDone() || cancelled_at_.has_value()) BeginSave();
}

void ActiveJob::BeginSave() {
  phase_ = Phase::kSave;
  StartCycle(true);
  ForEachServer(Group::kFinal, NewTask(Task::DIGEST));
  if (job().has_checkpoint()) WriteParts(absl::nullopt);
}

void ActiveJob::FinishSave() {
  if (job().has_checkpoint()) {
    phase_ = Phase::kCommit;
    CommitCycle(Group::kFinal);
    return;
  }
  phase_ = Phase::kReports;
  AdvanceReports();
}

void ActiveJob::AdvanceReports() {
  // Metrics of the last batches ride on heartbeats. Those of a worker that died never come, so the wait has an end.
  if (!metrics_->Complete() && Now() < reports_until_) return;
  if (cancelled_at_.has_value()) {
    EndCancelled("");
  } else {
    End(SUCCEEDED, "");
  }
}

}  // namespace shoal
