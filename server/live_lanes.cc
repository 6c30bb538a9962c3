#include "server/live_lanes.h"

#include <algorithm>

namespace shoal {

bool LiveLanes::Update(const JobView& view) {
  if (view.live_version() <= live_version_ && live_version_ != 0) return false;
  live_version_ = view.live_version();
  next_lane_ = std::max(next_lane_, view.next_lane());
  absl::flat_hash_map<uint64_t, uint64_t> clocks;
  for (const LaneClock& lane : view.lanes()) {
    const auto it = clocks_.find(lane.lane());
    clocks[lane.lane()] = it == clocks_.end() ? lane.clock() : std::max(it->second, lane.clock());
  }
  // Lanes that the scheduler made after it wrote this view.
  for (const auto& [lane, clock] : clocks_) {
    if (lane >= view.next_lane()) clocks.emplace(lane, clock);
  }
  clocks_ = std::move(clocks);
  slowest_known_ = false;
  return true;
}

void LiveLanes::Join(uint64_t lane) { Raise(lane, clocks_.find(lane) == clocks_.end() ? Slowest() : 0); }

void LiveLanes::Raise(uint64_t lane, uint64_t finished) {
  const auto [it, fresh] = clocks_.emplace(lane, finished);
  if (!fresh && it->second >= finished) return;
  // Only a fresh lane, or one that was the slowest, can move the minimum.
  if (fresh || it->second == slowest_) slowest_known_ = false;
  it->second = finished;
}

uint64_t LiveLanes::Slowest() const {
  if (slowest_known_) return slowest_;
  slowest_ = clocks_.empty() ? 0 : ~uint64_t{0};
  for (const auto& [lane, clock] : clocks_) slowest_ = std::min(slowest_, clock);
  slowest_known_ = true;
  return slowest_;
}

}  // namespace shoal
