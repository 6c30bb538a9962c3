#include "scheduler/pacing/live_set.h"

#include <algorithm>

namespace shoal {

uint64_t LiveSet::Find(ThreadId thread) const {
  for (const auto& [id, lane] : lanes_) {
    if (lane.thread == thread) return id;
  }
  return 0;
}

const LiveSet::Lane& LiveSet::Join(uint64_t lane, ThreadId thread) {
  uint64_t clock = lanes_.empty() ? last_clock_ : lanes_.begin()->second.clock;
  for (const auto& [id, other] : lanes_) clock = std::min(clock, other.clock);
  return lanes_[lane] = Lane{thread, clock};
}

void LiveSet::Erase(std::map<uint64_t, Lane>::iterator it) {
  last_clock_ = std::max(last_clock_, it->second.clock);
  lanes_.erase(it);
}

bool LiveSet::Leave(ThreadId thread) {
  const auto it = lanes_.find(Find(thread));
  if (it == lanes_.end()) return false;
  Erase(it);
  return true;
}

bool LiveSet::LeaveAllOf(uint64_t process) {
  const size_t before = lanes_.size();
  for (auto it = lanes_.begin(); it != lanes_.end();) {
    const auto lane = it++;
    if (lane->second.thread.process == process) Erase(lane);
  }
  return lanes_.size() != before;
}

void LiveSet::Report(uint64_t lane, uint64_t process, uint64_t clock) {
  const auto it = lanes_.find(lane);
  if (it != lanes_.end() && it->second.thread.process == process) it->second.clock = std::max(it->second.clock, clock);
}

uint32_t LiveSet::LanesOf(uint64_t process) const {
  return static_cast<uint32_t>(std::count_if(
      lanes_.begin(), lanes_.end(), [process](const auto& lane) { return lane.second.thread.process == process; }));
}

}  // namespace shoal
