#ifndef SHOAL_SCHEDULER_LEDGER_PASS_LEDGER_H_
#define SHOAL_SCHEDULER_LEDGER_PASS_LEDGER_H_

#include <set>

#include "scheduler/ledger/ledger.h"

namespace shoal {

// asp, ssp: splits are leased in order, pass after pass; a pass opens when the one before has nothing left to lease.
// Not thread-safe.
class PassLedger : public Ledger {
 public:
  PassLedger(uint64_t splits, uint64_t passes) : splits_(splits), total_(splits * passes) {}

  bool HasWork() override;
  absl::optional<LeasedWork> Take(uint64_t lease, ThreadId holder) override;
  absl::optional<LeasedWork> Complete(uint64_t lease, ThreadId holder, uint64_t next_round) override;
  bool AllDone() const override { return done_.size() == total_; }
  // Whole passes only: an audit in the middle of a pass would tell little.
  uint64_t AuditLimit() const override { return splits_ == 0 ? 0 : done_.prefix() / splits_ * splits_; }
  uint64_t Reconcile(const DoneSet& truth, uint64_t limit) override;
  uint64_t FallBack(const DoneSet& truth) override { return TakeBack(truth, total_); }
  uint64_t splits_in_all() const override { return total_; }
  uint64_t splits_done() const override { return done_.size(); }
  uint64_t current_pass() const override;

  // Starts from what the partitions have done. REQUIRES: nothing was leased yet.
  void Rebuild(const DoneSet& truth) { done_ = truth; }

 protected:
  void Requeue(const Lease& lease) override { returned_.insert(lease.index); }

 private:
  void SkipDone();
  // Those below `limit` that were handed in and are not in `truth` are to be leased again; their number.
  uint64_t TakeBack(const DoneSet& truth, uint64_t limit);

  const uint64_t splits_, total_;
  uint64_t frontier_ = 0;        // first split that was never leased
  std::set<uint64_t> returned_;  // below it, to be leased again before any other
  DoneSet done_;
};

}  // namespace shoal

#endif  // SHOAL_SCHEDULER_LEDGER_PASS_LEDGER_H_
