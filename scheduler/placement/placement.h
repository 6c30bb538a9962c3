// Which server is to get which partition. Pure functions.
#ifndef SHOAL_SCHEDULER_PLACEMENT_PLACEMENT_H_
#define SHOAL_SCHEDULER_PLACEMENT_PLACEMENT_H_

#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "proto/scheduler.pb.h"

namespace shoal {

class PartitionMap;

// Owner of each partition as an index into the list of servers. Counts differ by at most one, and neighbouring
// partitions lie on different servers. REQUIRES: servers > 0.
inline std::vector<uint32_t> PlacePartitions(uint32_t partitions, uint32_t servers) {
  std::vector<uint32_t> owner(partitions);
  for (uint32_t p = 0; p < partitions; ++p) owner[p] = p % servers;
  return owner;
}

// What each partition costs its server: half of it the same for all, since every batch asks each of them, half by
// bytes. 1 on average. A mebibyte is added to all: what differs by less is not worth a move, and small partitions that
// grow do so between two reports.
std::vector<double> PartitionWeights(uint32_t partitions, const std::map<uint32_t, PartitionLoad>& loads);

// Where a partition is to go.
struct PartitionMove {
  uint32_t partition = 0;
  uint64_t target = 0;  // process
};

// New owners for the partitions whose owner is not among the staying servers: each goes to the one that carries least.
// REQUIRES: staying is not empty.
std::vector<PartitionMove> PlaceHomeless(const PartitionMap& map, const std::vector<double>& weights,
                                         const std::vector<uint64_t>& staying);
// The staying servers that carry most and least. REQUIRES: staying is not empty.
std::pair<uint64_t, uint64_t> BusiestAndIdlest(const PartitionMap& map, const std::vector<double>& weights,
                                               const std::vector<uint64_t>& staying);
// Moves that level the load of the staying servers, each partition at most once; none while they differ by less than a
// quarter of a fair share. Once all are made, the same weights lead to no further ones.
std::vector<PartitionMove> PlanBalance(const PartitionMap& map, const std::vector<double>& weights,
                                       const std::vector<uint64_t>& staying);
// Backups for the partitions that have none: never on their owner, nor where avoid(owner, backup). Empty when there is
// only one server.
std::vector<PartitionMove> PlaceBackups(const PartitionMap& map, const std::vector<uint64_t>& staying,
                                        const std::function<bool(uint64_t, uint64_t)>& avoid);

}  // namespace shoal

#endif  // SHOAL_SCHEDULER_PLACEMENT_PLACEMENT_H_
