#include "scheduler/ledger/round_ledger.h"

#include <algorithm>
#include <map>

#include "absl/strings/str_cat.h"

namespace shoal {

RoundLedger::RoundLedger(uint64_t splits, uint64_t passes, uint32_t lanes)
    : passes_(passes), total_(splits * passes), lanes_(lanes) {
  for (uint64_t l = 0; l < lanes; ++l) {
    lanes_[l].splits_per_pass = splits > l ? (splits - 1 - l) / lanes + 1 : 0;
    free_.insert(free_.end(), {0, l});
  }
}

absl::optional<LeasedWork> RoundLedger::Take(uint64_t lease, ThreadId holder) {
  if (free_.empty()) return absl::nullopt;
  const uint64_t free = free_.begin()->second;
  free_.erase(free_.begin());
  const Lane& lane = lanes_[free];
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
  const uint64_t index = held->index;
  Lane& lane = lanes_[index];
  if (work.lane_finished) {
    lane.announced = true;
    ++announced_;
  } else {
    ++lane.done;
    ++splits_done_;
    lane.last_began = work.first_round;
    lane.rounds = std::max(lane.rounds, next_round);
    free_.insert({lane.rounds, index});
  }
  leases_.erase(lease);
  return work;
}

uint64_t RoundLedger::Reconcile(const DoneSet& truth, uint64_t limit) {
  uint64_t missing = 0;
  for (uint64_t s = truth.prefix(); s < limit; ++s) missing += !truth.Contains(s);
  if (missing == 0) audited_ = std::max(audited_, limit);
  return missing;
}

uint64_t RoundLedger::NumberOf(uint64_t lane, uint64_t i) const {
  const uint64_t splits_per_pass = lanes_[lane].splits_per_pass;
  return i / splits_per_pass * (total_ / passes_) + lane + i % splits_per_pass * lanes_.size();
}

absl::Status RoundLedger::Rebuild(const std::vector<PartitionDone>& partitions, uint64_t batch_size) {
  if (partitions.empty()) return absl::FailedPreconditionError("no partition was reported");
  const PartitionDone& first = partitions[0];
  const uint64_t rounds = first.rounds_applied();
  std::map<uint64_t, uint64_t> watermarks;
  for (const OpenSplitState& open : first.open()) watermarks[open.split()] = open.watermark();
  for (const PartitionDone& other : partitions) {
    if (other.rounds_applied() != rounds) {
      return absl::FailedPreconditionError(absl::StrCat("partition ", first.partition(), " stands at round ", rounds,
                                                        ", partition ", other.partition(), " at round ",
                                                        other.rounds_applied()));
    }
  }
  const DoneSet truth = Intersect(partitions, total_);
  StoredRounds stored;
  for (uint64_t l = 0; l < lanes_.size(); ++l) {
    StoredRounds::Lane* const lane = stored.add_lanes();
    const uint64_t splits = lanes_[l].splits_per_pass * passes_;
    uint64_t done = 0;
    while (done < splits && truth.Contains(NumberOf(l, done))) ++done;
    lane->set_splits_done(done);
    // A lane contributes to every round until it is finished, so the round at which its open split began follows from
    // how many batches of it are applied. For a finished lane any round that has passed will do.
    uint64_t batches = 0;
    if (done < splits) {
      const auto open = watermarks.find(NumberOf(l, done));
      if (open != watermarks.end()) batches = (open->second + batch_size - 1) / batch_size;
    }
    if (batches > rounds) {
      return absl::FailedPreconditionError(absl::StrCat(
          "logical lane ", l, ": ", batches, " batches of its open split are applied after ", rounds, " rounds"));
    }
    lane->set_rounds(rounds - batches);
  }
  Restore(stored);
  return absl::OkStatus();
}

void RoundLedger::AfterMove(uint64_t rounds) {
  const auto again = [&](const Lane& lane) { return lane.announced || lane.rounds > rounds; };
  // Announcements under way may not have reached everybody; who goes on after a split that is taken back is too early.
  for (auto it = leases_.begin(); it != leases_.end();) {
    const auto lease = it++;
    if (lease->second.work.lane_finished || again(lanes_[lease->second.index])) {
      Requeue(lease->second);
      leases_.erase(lease);
    }
  }
  for (uint64_t l = 0; l < lanes_.size(); ++l) {
    Lane& lane = lanes_[l];
    if (!again(lane)) continue;
    free_.erase({lane.rounds, l});
    if (std::exchange(lane.announced, false)) --announced_;
    if (lane.rounds > rounds && lane.done > 0) {
      --lane.done;
      --splits_done_;
      lane.rounds = lane.last_began;
    }
    free_.insert({lane.rounds, l});
  }
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
    out->set_last_began(lane.last_began);
  }
  return stored;
}

bool RoundLedger::Restore(const StoredRounds& stored) {
  if (static_cast<size_t>(stored.lanes_size()) != lanes_.size()) return false;
  for (size_t l = 0; l < lanes_.size(); ++l) {
    if (stored.lanes(l).splits_done() > lanes_[l].splits_per_pass * passes_) return false;
  }
  free_.clear();
  announced_ = splits_done_ = 0;
  for (size_t l = 0; l < lanes_.size(); ++l) {
    lanes_[l].done = stored.lanes(l).splits_done();
    lanes_[l].rounds = stored.lanes(l).rounds();
    lanes_[l].announced = stored.lanes(l).announced();
    lanes_[l].last_began = stored.lanes(l).last_began();
    splits_done_ += lanes_[l].done;
    announced_ += lanes_[l].announced;
    if (!lanes_[l].announced) free_.insert({lanes_[l].rounds, l});
  }
  return true;
}

}  // namespace shoal
