// From the keys of a batch to the unique keys per partition, and back by inverse indices.
#ifndef SHOAL_WORKER_ROUTING_ROUTER_H_
#define SHOAL_WORKER_ROUTING_ROUTER_H_

#include <cstdint>
#include <vector>

#include "worker/data/batch.h"
#include "worker/routing/key_group.h"

namespace shoal {

// Makes the KeyGroup of each batch for a fixed set of slots. Its hash table is kept between batches, so that it
// allocates only when a batch is larger than all before. The result is a function of the batch alone. Owned by one
// lane; not thread-safe.
class Router {
 public:
  // `slots`: schema indices below 2^16, each once (ModelGraph::groups()). REQUIRES: partitions > 0.
  Router(std::vector<uint32_t> slots, uint32_t partitions);

  // Overwrites *group; its vectors keep their capacity. Every slot must be in the batch, which must have fewer than
  // 2^32 keys.
  void Route(const Batch& batch, KeyGroup* group);

 private:
  struct Cell {
    uint64_t key;
    uint32_t id;     // in order of first sight
    uint32_t stamp;  // the batch that wrote the cell; others count as empty
  };

  void PrepareTable();
  void Grow();
  void FindIds(const std::vector<uint64_t>& keys, uint32_t* ids);
  void SortByPartition(KeyGroup* group);

  const std::vector<uint32_t> slots_;
  const uint32_t partitions_;
  std::vector<Cell> cells_;  // a power of two, at most half full: as small as the unique keys allow, to stay in cache
  int shift_ = 0;            // hash >> shift_ is a cell
  uint32_t stamp_ = 0;
  std::vector<uint64_t> unique_;        // keys by id
  std::vector<uint32_t> slot_end_;      // by entry of slots_: ids below this were seen in it or an earlier one
  std::vector<uint32_t> partition_of_;  // by id
  std::vector<uint32_t> position_of_;   // by id: in KeyGroup::keys
};

}  // namespace shoal

#endif  // SHOAL_WORKER_ROUTING_ROUTER_H_
