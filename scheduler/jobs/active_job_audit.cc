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
  partitions_.AdvanceRestores();
  if (partitions_.whole()) {
    AdvanceMoves();
    // Whoever asks for done sets or parts needs each partition in exactly one place.
    if (!partitions_.moving()) AdvanceCheckpoint();
    if (ended()) return;
    partitions_.AdvanceBackups();
  }
  if (tasks_.Pending(Group::kAudit) || !partitions_.whole() || partitions_.moving()) return;
  if (auditing_) {
    FinishAudit();
    if (ended() || phase_ != Phase::kTrain) return;
  }
  if (!auditing_ && ledger_->AuditDue() && Now() >= audit_not_before_) BeginAudit();
}

void ActiveJob::BeginAudit() {
  auditing_ = true;
  reported_.clear();
  audit_limit_ = ledger_->AuditLimit();
  ForEachOwner(Group::kAudit, NewTask(Task::REPORT_DONE));
}

void ActiveJob::CancelAudit() {
  tasks_.Cancel(Group::kAudit);
  auditing_ = false;
  reported_.clear();
}

void ActiveJob::RetryAudit(const std::string& why) {
  CancelAudit();
  audit_not_before_ = Now() + kAuditRetry;
  audit_unclean_since_ = std::min(audit_unclean_since_, Now());
  if (Now() - audit_unclean_since_ > kAuditPatience) Fail(why);
}

void ActiveJob::TakeDone(Group group, const TaskResult& result) {
  for (const PartitionDone& done : result.done()) {
    if (group == Group::kAudit) reported_.push_back(done);
    rounds_applied_ = std::max<uint64_t>(rounds_applied_, done.rounds_applied());
  }
}

// False: partitions were reported by none or several; they are asked again, or the job has failed.
bool ActiveJob::CheckReported() {
  std::vector<uint32_t> seen(job().partitions());
  for (const PartitionDone& done : reported_) {
    if (done.partition() < seen.size()) ++seen[done.partition()];
  }
  const auto odd = std::find_if(seen.begin(), seen.end(), [](uint32_t count) { return count != 1; });
  if (odd == seen.end()) return true;
  // A server that has not got its newest partitions ready yet will have them the next time.
  const int p = static_cast<int>(odd - seen.begin());
  RetryAudit(absl::StrCat("partition ", p, " was reported by ", *odd, " servers, its owner is server ",
                          stored_.servers(static_cast<int>(stored_.owner(p))).name()));
  return false;
}

void ActiveJob::FinishAudit() {
  if (!CheckReported()) return;
  auditing_ = false;
  const uint64_t limit = audit_limit_;
  const std::vector<PartitionDone> reported = std::exchange(reported_, {});
  const DoneSet truth = Intersect(reported, limit);
  const uint64_t missing = ledger_->Reconcile(truth, limit);
  if (missing == 0) {
    audit_unclean_since_ = absl::InfiniteDuration();
    if (!ledger_->AllDone() || !ledger_->Audited()) return;
    // What a worker had not told when it died is applied all the same.
    metrics_->Settle(reported, truth);
    BeginFinalizing();
  } else if (rounds_ == nullptr) {
    audit_unclean_since_ = absl::InfiniteDuration();
    Log(absl::StrCat("audit: partitions miss ", missing, " splits that were handed in; they are leased again"));
    context_.changes->work = true;
  } else {
    RetryAudit(absl::StrCat("audit: all logical lanes are finished, but partitions miss ", missing, " splits after ",
                            rounds_applied_, " rounds"));
  }
}

void ActiveJob::BeginFinalizing() {
  Log(absl::StrCat("all ", ledger_->splits_in_all(), " splits are done in all partitions"));
  // The final checkpoint takes the place of one under way.
  CancelCheckpoint();
  tasks_.Cancel(Group::kBackup);
  recoveries_.Close(Now());
  metrics_->ClearEval();
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

// The last parts that were written are no checkpoint: servers that had not heard of the newest map write them again.
void ActiveJob::RetrySave(const std::string& why) {
  const std::string what = absl::StrCat("checkpoint ", cycle_->task.name(), " is given up: ", why);
  cycle_.reset();
  audit_not_before_ = Now() + kAuditRetry;
  audit_unclean_since_ = std::min(audit_unclean_since_, Now());
  if (Now() - audit_unclean_since_ > kAuditPatience) {
    Fail(what);
  } else {
    Log(what);
  }
}

void ActiveJob::BeginSave() {
  phase_ = Phase::kSave;
  StartCycle(true);
  ForEachOwner(Group::kFinal, NewTask(Task::DIGEST));
  if (job().has_checkpoint()) WriteParts(absl::nullopt);
}

void ActiveJob::FinishSave() {
  if (job().has_checkpoint()) {
    const absl::Status whole = CheckParts(*cycle_, job().partitions(), bsp());
    if (!whole.ok()) return RetrySave(std::string(whole.message()));
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
