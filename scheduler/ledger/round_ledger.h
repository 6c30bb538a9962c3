#ifndef SHOAL_SCHEDULER_LEDGER_ROUND_LEDGER_H_
#define SHOAL_SCHEDULER_LEDGER_ROUND_LEDGER_H_

#include <set>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "scheduler/ledger/ledger.h"
#include "scheduler/state/state.pb.h"

namespace shoal {

// bsp: logical lane l owns positions l, l + L, l + 2L ... of each pass and goes through them one after the other,
// whoever carries it. Not thread-safe.
class RoundLedger : public Ledger {
 public:
  RoundLedger(uint64_t splits, uint64_t passes, uint32_t lanes);

  bool HasWork() override { return !free_.empty(); }
  absl::optional<LeasedWork> Take(uint64_t lease, ThreadId holder) override;
  absl::optional<LeasedWork> Complete(uint64_t lease, ThreadId holder, uint64_t next_round) override;
  bool AllDone() const override { return announced_ == lanes_.size(); }
  // A round is applied only when every lane has said that it is over, so only the end can be checked.
  uint64_t AuditLimit() const override { return AllDone() ? total_ : 0; }
  uint64_t Reconcile(const DoneSet& truth, uint64_t limit) override;
  uint64_t FallBack(const DoneSet& /*truth*/) override { return 0; }  // bsp goes back by a new run: Rebuild
  uint64_t splits_in_all() const override { return total_; }
  uint64_t splits_done() const override { return splits_done_; }
  uint64_t current_pass() const override;

  uint32_t lanes() const { return static_cast<uint32_t>(lanes_.size()); }
  // Rounds that are certainly behind all logical lanes, and the rounds of the longest lane so far.
  uint64_t CommonRounds() const;
  uint64_t MaxRounds() const;
  StoredRounds Snapshot() const;
  // Goes on from a snapshot. REQUIRES: nothing was leased yet. False: it is of another job.
  bool Restore(const StoredRounds& stored);
  // Goes on from what all partitions say after they were cut at one round. REQUIRES: nothing was leased yet.
  // FAILED_PRECONDITION when they do not agree.
  absl::Status Rebuild(const std::vector<PartitionDone>& partitions, uint64_t batch_size);
  // Partitions have moved when `rounds` were applied: servers forgot what they held of the round that was next, and new
  // ones do not know which lanes are finished. Lanes that had ended a split with that round do so again; finished lanes
  // are announced again.
  void AfterMove(uint64_t rounds);

 protected:
  void Requeue(const Lease& lease) override { free_.insert({lanes_[lease.index].rounds, lease.index}); }

 private:
  struct Lane {
    uint64_t splits_per_pass = 0;
    uint64_t done = 0;  // splits
    uint64_t rounds = 0;
    uint64_t last_began = 0;  // round at which the last split that is done began
    bool announced = false;   // all servers know the last round
  };
  // Number over all passes of the lane's i-th split.
  uint64_t NumberOf(uint64_t lane, uint64_t i) const;
  bool Exhausted(const Lane& lane) const { return lane.done == lane.splits_per_pass * passes_; }

  const uint64_t passes_, total_;
  std::vector<Lane> lanes_;
  // (rounds, lane) of those neither leased nor announced: the one furthest behind comes first, all others wait for it.
  std::set<std::pair<uint64_t, uint64_t>> free_;
  uint64_t announced_ = 0, splits_done_ = 0;  // of all lanes
};

}  // namespace shoal

#endif  // SHOAL_SCHEDULER_LEDGER_ROUND_LEDGER_H_
