#include "scheduler/jobs/recoveries.h"

#include <algorithm>

namespace shoal {

void Recoveries::Begin(const std::string& what, uint32_t partitions, absl::Duration now) {
  Entry entry;
  entry.recovery.set_what(what);
  entry.recovery.set_partitions(partitions);
  entry.since = now;
  entries_.push_back(std::move(entry));
  if (entries_.size() > kKept) entries_.pop_front();
  open_ = std::min(open_ + 1, entries_.size());
  ++in_all_;
  clocks_.clear();
}

void Recoveries::AddSplitsAgain(uint64_t splits) {
  if (entries_.empty()) return;
  Recovery& recovery = entries_.back().recovery;
  recovery.set_splits_again(recovery.splits_again() + splits);
}

void Recoveries::OnClock(uint64_t lane, uint64_t clock, bool whole, absl::Duration now) {
  if (!open()) return;
  const auto [it, first] = clocks_.emplace(lane, clock);
  if (first || clock <= it->second) return;
  if (whole) {
    Close(now);
  } else {
    it->second = clock;
  }
}

void Recoveries::OnGrant(uint64_t lane, uint64_t clock) {
  if (open()) clocks_.emplace(lane, clock);
}

void Recoveries::Close(absl::Duration now) {
  for (size_t i = entries_.size() - open_; i < entries_.size(); ++i) {
    entries_[i].recovery.set_seconds(absl::ToDoubleSeconds(now - entries_[i].since));
  }
  open_ = 0;
  clocks_.clear();
}

void Recoveries::Fill(JobStatus* status) const {
  for (const Entry& entry : entries_) *status->add_recoveries() = entry.recovery;
  status->set_recoveries_in_all(in_all_);
}

void Recoveries::Save(StoredProgress* progress) const {
  for (const Entry& entry : entries_) *progress->add_recoveries() = entry.recovery;
  progress->set_recoveries_in_all(in_all_);
}

void Recoveries::Load(const StoredProgress& progress, absl::Duration now) {
  entries_.clear();
  open_ = 0;
  for (const Recovery& recovery : progress.recoveries()) {
    entries_.push_back({recovery, now});
    open_ = recovery.seconds() == 0 ? open_ + 1 : 0;
  }
  in_all_ = progress.recoveries_in_all();
}

}  // namespace shoal
