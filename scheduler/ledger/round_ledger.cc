#include "scheduler/ledger/round_ledger.h"

#include <algorithm>

namespace shoal {

RoundLedger::RoundLedger(uint64_t splits, uint64_t passes, uint32_t lanes)
    : passes_(passes), total_(splits * passes), lanes_(lanes) {
  for (uint64_t l = 0; l < lanes; ++l) lanes_[l].splits_per_pass = splits > l ? (splits - 1 - l) / lanes + 1 : 0;
}

int64_t RoundLedger::FreeLane() const {
  int64_t best = -1;
  for (size_t l = 0; l < lanes_.size(); ++l) {
    if (lanes_[l].leased || lanes_[l].announced) continue;
    if (best < 0 || lanes_[l].rounds < lanes_[best].rounds) best = static_cast<int64_t>(l);
  }
  return best;
}

absl::optional<LeasedWork> RoundLedger::Take(uint64_t lease, ThreadId holder) {
  const int64_t free = FreeLane();
  if (free < 0) return absl::nullopt;
  Lane& lane = lanes_[free];
  lane.leased = true;
  Lease& entry = leases_[lease];
  entry.holder = holder;
  entry.index = free;
  entry.work.lease = lease;
  entry.work.logical_lane = static_cast<uint32_t>(free);
  entry.work.first_round = lane.rounds;
  entry.work.lane_finished = Exhausted(lane);
  if (!entry.work.lane_finished) {
    entry.work.pass = lane.done / lane.splits_per_pass;
    entry.work.split = free + lane.done % lane.splits_per_pass * lanes_.size();
  }
  return entry.work;
}

absl::optional<LeasedWork> RoundLedger::Complete(uint64_t lease, ThreadId holder, uint64_t next_round) {
  const Lease* const held = Find(lease, holder);
  if (held == nullptr) return absl::nullopt;
  const LeasedWork work = held->work;
  Lane& lane = lanes_[held->index];
  lane.leased = false;
  if (work.lane_finished) {
    lane.announced = true;
  } else {
    ++lane.done;
    lane.rounds = std::max(lane.rounds, next_round);
  }
  leases_.erase(lease);
  return work;
}

bool RoundLedger::AllDone() const {
  return std::all_of(lanes_.begin(), lanes_.end(), [](const Lane& lane) { return lane.announced; });
}

uint64_t RoundLedger::Reconcile(const DoneSet& truth, uint64_t limit) {
  uint64_t missing = 0;
  for (uint64_t s = truth.prefix(); s < limit; ++s) missing += !truth.Contains(s);
  if (missing == 0) audited_ = std::max(audited_, limit);
  return missing;
}

uint64_t RoundLedger::splits_done() const {
  uint64_t done = 0;
  for (const Lane& lane : lanes_) done += lane.done;
  return done;
}

uint64_t RoundLedger::current_pass() const {
  uint64_t pass = passes_ == 0 ? 0 : passes_ - 1;
  for (const Lane& lane : lanes_) {
    if (lane.splits_per_pass != 0) pass = std::min(pass, lane.done / lane.splits_per_pass);
  }
  return pass;
}

uint64_t RoundLedger::CommonRounds() const {
  uint64_t common = MaxRounds();
  for (const Lane& lane : lanes_) {
    if (!Exhausted(lane)) common = std::min(common, lane.rounds);
  }
  return common;
}

uint64_t RoundLedger::MaxRounds() const {
  uint64_t most = 0;
  for (const Lane& lane : lanes_) most = std::max(most, lane.rounds);
  return most;
}

StoredRounds RoundLedger::Snapshot() const {
  StoredRounds stored;
  for (const Lane& lane : lanes_) {
    StoredRounds::Lane* const out = stored.add_lanes();
    out->set_splits_done(lane.done);
    out->set_rounds(lane.rounds);
    out->set_announced(lane.announced);
  }
  return stored;
}

bool RoundLedger::Restore(const StoredRounds& stored) {
  if (static_cast<size_t>(stored.lanes_size()) != lanes_.size()) return false;
  for (size_t l = 0; l < lanes_.size(); ++l) {
    if (stored.lanes(l).splits_done() > lanes_[l].splits_per_pass * passes_) return false;
  }
  for (size_t l = 0; l < lanes_.size(); ++l) {
    lanes_[l].done = stored.lanes(l).splits_done();
    lanes_[l].rounds = stored.lanes(l).rounds();
    lanes_[l].announced = stored.lanes(l).announced();
  }
  return true;
}

}  // namespace shoal
