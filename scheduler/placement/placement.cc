#include "scheduler/placement/placement.h"

#include <algorithm>

#include "scheduler/placement/partition_map.h"

namespace shoal {
namespace {

// Load may differ by this share of a fair one before partitions are moved for it.
constexpr double kTolerance = 0.25;

// ... and moves must make the difference smaller by this share of one, or those of a partition too heavy to be balanced
// would go on for ever, as reports differ a little.
constexpr double kWorthwhile = 0.125;
constexpr double kSmallBytes = 1 << 20;

using Loads = std::map<uint64_t, double>;  // by process

Loads LoadsOf(const PartitionMap& map, const std::vector<double>& weights, const std::vector<uint64_t>& staying) {
  Loads loads;
  for (uint64_t process : staying) loads[process] = 0;
  for (uint32_t p = 0; p < map.size(); ++p) {
    const auto it = loads.find(map.at(p).owner);
    if (it != loads.end()) it->second += weights[p];
  }
  return loads;
}

bool Less(const Loads::value_type& a, const Loads::value_type& b) { return a.second < b.second; }

}  // namespace

std::vector<double> PartitionWeights(uint32_t partitions, const std::map<uint32_t, PartitionLoad>& loads) {
  double bytes = 0;
  for (const auto& [partition, load] : loads) bytes += static_cast<double>(load.bytes());
  // What nothing is known of counts like the average.
  std::vector<double> weights(partitions, 1);
  if (bytes == 0) return weights;
  const double average = bytes / static_cast<double>(loads.size()) + kSmallBytes;
  for (const auto& [partition, load] : loads) {
    if (partition >= partitions) continue;
    weights[partition] = 0.5 + 0.5 * (static_cast<double>(load.bytes()) + kSmallBytes) / average;
  }
  return weights;
}

std::vector<PartitionMove> PlaceHomeless(const PartitionMap& map, const std::vector<double>& weights,
                                         const std::vector<uint64_t>& staying) {
  Loads loads = LoadsOf(map, weights, staying);
  std::vector<PartitionMove> moves;
  for (uint32_t p = 0; p < map.size(); ++p) {
    if (loads.count(map.at(p).owner) > 0) continue;
    const auto least = std::min_element(loads.begin(), loads.end(), Less);
    least->second += weights[p];
    moves.push_back({p, least->first});
  }
  return moves;
}

std::pair<uint64_t, uint64_t> BusiestAndIdlest(const PartitionMap& map, const std::vector<double>& weights,
                                               const std::vector<uint64_t>& staying) {
  const Loads loads = LoadsOf(map, weights, staying);
  const auto [idlest, busiest] = std::minmax_element(loads.begin(), loads.end(), Less);
  return {busiest->first, idlest->first};
}

std::vector<PartitionMove> PlanBalance(const PartitionMap& map, const std::vector<double>& weights,
                                       const std::vector<uint64_t>& staying) {
  std::vector<PartitionMove> moves;
  Loads loads = LoadsOf(map, weights, staying);
  if (loads.size() < 2) return moves;
  double sum = 0;
  for (const auto& [process, load] : loads) sum += load;
  const double fair = sum / static_cast<double>(loads.size());
  const auto [idlest, busiest] = std::minmax_element(loads.begin(), loads.end(), Less);
  const double spread = busiest->second - idlest->second;
  if (spread <= kTolerance * fair) return moves;
  std::map<uint64_t, std::vector<uint32_t>> owned;
  for (uint32_t p = 0; p < map.size(); ++p) {
    if (!map.at(p).lost) owned[map.at(p).owner].push_back(p);
  }
  // Each step makes the sum of squares smaller, so that they come to an end. What is moved may move on: only where it
  // comes to in the end counts.
  std::map<uint32_t, uint64_t> to_be;
  for (size_t steps = 0; steps < 4 * size_t{map.size()}; ++steps) {
    const auto [to, from] = std::minmax_element(loads.begin(), loads.end(), Less);
    const double gap = from->second - to->second;
    std::vector<uint32_t>& candidates = owned[from->first];
    // The heaviest one that leaves the target lighter than the source was.
    auto best = candidates.end();
    for (auto it = candidates.begin(); it != candidates.end(); ++it) {
      if (weights[*it] > gap * 0.5) continue;
      if (best == candidates.end() || weights[*it] > weights[*best]) best = it;
    }
    if (best == candidates.end()) break;
    from->second -= weights[*best];
    to->second += weights[*best];
    to_be[*best] = to->first;
    owned[to->first].push_back(*best);
    candidates.erase(best);
  }
  const auto [least, most] = std::minmax_element(loads.begin(), loads.end(), Less);
  if (spread - (most->second - least->second) < kWorthwhile * fair) return moves;
  for (const auto& [partition, target] : to_be) {
    if (map.at(partition).owner != target) moves.push_back({partition, target});
  }
  return moves;
}

std::vector<PartitionMove> PlaceBackups(const PartitionMap& map, const std::vector<uint64_t>& staying,
                                        const std::function<bool(uint64_t, uint64_t)>& avoid) {
  Loads loads;
  for (uint64_t process : staying) loads[process] = 0;
  for (uint32_t p = 0; p < map.size(); ++p) {
    for (uint64_t process : {map.at(p).owner, map.at(p).backup}) {
      const auto it = loads.find(process);
      if (it != loads.end()) it->second += 1;
    }
  }
  std::vector<PartitionMove> moves;
  for (uint32_t p = 0; p < map.size(); ++p) {
    if (map.at(p).backup != 0) continue;
    auto least = loads.end();
    for (auto it = loads.begin(); it != loads.end(); ++it) {
      if (it->first == map.at(p).owner || avoid(map.at(p).owner, it->first)) continue;
      if (least == loads.end() || it->second < least->second) least = it;
    }
    if (least == loads.end()) continue;
    least->second += 1;
    moves.push_back({p, least->first});
  }
  return moves;
}

}  // namespace shoal
