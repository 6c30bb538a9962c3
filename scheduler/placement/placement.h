// Which server owns which partition.
#ifndef SHOAL_SCHEDULER_PLACEMENT_PLACEMENT_H_
#define SHOAL_SCHEDULER_PLACEMENT_PLACEMENT_H_

#include <cstdint>
#include <vector>

namespace shoal {

// Owner of each partition as an index into the list of servers. Counts differ by at most one, and neighbouring
// partitions lie on different servers. REQUIRES: servers > 0.
inline std::vector<uint32_t> PlacePartitions(uint32_t partitions, uint32_t servers) {
  std::vector<uint32_t> owner(partitions);
  for (uint32_t p = 0; p < partitions; ++p) owner[p] = p % servers;
  return owner;
}

}  // namespace shoal

#endif  // SHOAL_SCHEDULER_PLACEMENT_PLACEMENT_H_
