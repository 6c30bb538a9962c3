// The unique keys of a batch, in the order in which they travel: what routing makes, the model indexes and clients
// send.
#ifndef SHOAL_WORKER_ROUTING_KEY_GROUP_H_
#define SHOAL_WORKER_ROUTING_KEY_GROUP_H_

#include <cstdint>
#include <vector>

namespace shoal {

// Tables that look up the same slots share one group. Reused between batches.
struct KeyGroup {
  std::vector<uint64_t> keys;             // unique, grouped by partition (ascending); first seen first inside one
  std::vector<uint16_t> slots;            // by key: the slot (index of the schema) in which it was seen first
  std::vector<uint32_t> partition_begin;  // partitions + 1 entries: keys of partition p are [begin[p], begin[p+1])
  // By slot index of the schema: inverse[s][i] is the position in `keys` of occurrence i of slot s; empty for slots
  // outside the group.
  std::vector<std::vector<uint32_t>> inverse;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_ROUTING_KEY_GROUP_H_
