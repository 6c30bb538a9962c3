// What of a job's training data is to be done, leased and done. Variants: PassLedger (asp, ssp; also evaluation),
// RoundLedger (bsp). The ledger is a cache: the partitions' done sets are the truth (Reconcile).
#ifndef SHOAL_SCHEDULER_LEDGER_LEDGER_H_
#define SHOAL_SCHEDULER_LEDGER_LEDGER_H_

#include <cstdint>
#include <map>

#include "absl/types/optional.h"
#include "scheduler/ledger/intersect.h"

namespace shoal {

// One thread of one worker.
struct ThreadId {
  uint64_t process = 0;
  uint32_t thread = 0;
  bool operator<(const ThreadId& o) const { return process != o.process ? process < o.process : thread < o.thread; }
  bool operator==(const ThreadId& o) const { return process == o.process && thread == o.thread; }
};

// What a lease is for.
struct LeasedWork {
  uint64_t lease = 0;
  uint64_t pass = 0;
  uint64_t split = 0;          // position in the pass
  bool lane_finished = false;  // bsp: no split, only the lane's last round is to be announced
  uint32_t logical_lane = 0;   // bsp
  uint64_t first_round = 0;    // bsp
};

struct Lease {
  ThreadId holder;
  LeasedWork work;
  uint64_t index = 0;  // asp, ssp: number of the split over all passes; bsp: logical lane
};

// Not thread-safe. A lease that is not held (any more) is unknown: handing it in changes nothing.
class Ledger {
 public:
  virtual ~Ledger() = default;
  // Whether Take would find something.
  virtual bool HasWork() = 0;
  virtual absl::optional<LeasedWork> Take(uint64_t lease, ThreadId holder) = 0;
  // The lease's work is done. next_round: bsp. Returns what it was, or nothing for an unknown lease or another holder.
  virtual absl::optional<LeasedWork> Complete(uint64_t lease, ThreadId holder, uint64_t next_round) = 0;

  // Everything was leased and handed in.
  virtual bool AllDone() const = 0;
  // Splits that an audit can check by now, and whether that is more than the last clean one checked.
  virtual uint64_t AuditLimit() const = 0;
  bool AuditDue() const { return AuditLimit() > audited_; }
  bool Audited() const { return audited_ == splits_in_all(); }
  // Partitions were lost: what was found complete before is looked at again.
  void AuditAgain() { audited_ = 0; }
  // Compares with what all partitions have done below `limit`, an earlier AuditLimit(). Returns how many splits are
  // missing there; asp, ssp: they are to be leased again.
  virtual uint64_t Reconcile(const DoneSet& truth, uint64_t limit) = 0;

  // Some partitions went back to `truth`: what was handed in and is not done there counts as handed in no more. Returns
  // how many splits that are. asp, ssp only: they are leased again at once.
  virtual uint64_t FallBack(const DoneSet& truth) = 0;

  virtual uint64_t splits_in_all() const = 0;
  virtual uint64_t splits_done() const = 0;
  virtual uint64_t current_pass() const = 0;

  // The lease, if that thread holds it; else null.
  const Lease* Find(uint64_t lease, ThreadId holder) const {
    const auto it = leases_.find(lease);
    return it == leases_.end() || !(it->second.holder == holder) ? nullptr : &it->second;
  }
  // Unfinished: what was leased goes back to the front of the queue. False for an unknown lease or another holder.
  bool Return(uint64_t lease, ThreadId holder);
  // Returns all leases of a thread (of all threads of a process); the number of them.
  uint64_t ReturnAllOf(ThreadId holder);
  uint64_t ReturnAllOf(uint64_t process);
  uint64_t LeasesOf(ThreadId holder) const;
  uint64_t leases() const { return leases_.size(); }

 protected:
  virtual void Requeue(const Lease& lease) = 0;

  std::map<uint64_t, Lease> leases_;
  uint64_t audited_ = 0;
};

inline bool Ledger::Return(uint64_t lease, ThreadId holder) {
  if (Find(lease, holder) == nullptr) return false;
  const auto it = leases_.find(lease);
  const Lease held = it->second;
  leases_.erase(it);
  Requeue(held);
  return true;
}

inline uint64_t Ledger::ReturnAllOf(uint64_t process) {
  uint64_t count = 0;
  for (auto it = leases_.begin(); it != leases_.end();) {
    if (it->second.holder.process != process) {
      ++it;
      continue;
    }
    Requeue(it->second);
    it = leases_.erase(it);
    ++count;
  }
  return count;
}

inline uint64_t Ledger::ReturnAllOf(ThreadId holder) {
  uint64_t count = 0;
  for (auto it = leases_.begin(); it != leases_.end();) {
    if (!(it->second.holder == holder)) {
      ++it;
      continue;
    }
    Requeue(it->second);
    it = leases_.erase(it);
    ++count;
  }
  return count;
}

inline uint64_t Ledger::LeasesOf(ThreadId holder) const {
  uint64_t count = 0;
  for (const auto& [id, lease] : leases_) count += lease.holder == holder;
  return count;
}

}  // namespace shoal

#endif  // SHOAL_SCHEDULER_LEDGER_LEDGER_H_
