#include "scheduler/ledger/pass_ledger.h"

#include <algorithm>

namespace shoal {

void PassLedger::SkipDone() {
  while (frontier_ < total_ && done_.Contains(frontier_)) ++frontier_;
}

bool PassLedger::HasWork() {
  SkipDone();
  return !returned_.empty() || frontier_ < total_;
}

absl::optional<LeasedWork> PassLedger::Take(uint64_t lease, ThreadId holder) {
  if (!HasWork()) return absl::nullopt;
  uint64_t index;
  if (!returned_.empty()) {
    index = *returned_.begin();
    returned_.erase(returned_.begin());
  } else {
    index = frontier_++;
  }
  Lease& entry = leases_[lease];
  entry.holder = holder;
  entry.index = index;
  entry.work.lease = lease;
  entry.work.pass = index / splits_;
  entry.work.split = index % splits_;
  return entry.work;
}

absl::optional<LeasedWork> PassLedger::Complete(uint64_t lease, ThreadId holder, uint64_t /*next_round*/) {
  const Lease* const held = Find(lease, holder);
  if (held == nullptr) return absl::nullopt;
  const LeasedWork work = held->work;
  done_.Add(held->index);
  leases_.erase(lease);
  return work;
}

uint64_t PassLedger::Reconcile(const DoneSet& truth, uint64_t limit) {
  const uint64_t missing = TakeBack(truth, limit);
  if (missing == 0) audited_ = std::max(audited_, limit);
  return missing;
}

uint64_t PassLedger::TakeBack(const DoneSet& truth, uint64_t limit) {
  std::vector<uint64_t> missing;
  for (uint64_t s = truth.prefix(); s < limit; ++s) {
    if (!truth.Contains(s) && done_.Contains(s)) missing.push_back(s);
  }
  // From the top, so that each removal leaves the shorter rest of the prefix to be spelled out.
  for (auto it = missing.rbegin(); it != missing.rend(); ++it) {
    done_.Remove(*it);
    returned_.insert(*it);
  }
  return missing.size();
}

uint64_t PassLedger::current_pass() const {
  if (total_ == 0) return 0;
  const uint64_t next = returned_.empty() ? frontier_ : *returned_.begin();
  return std::min(next, total_ - 1) / splits_;
}

}  // namespace shoal
