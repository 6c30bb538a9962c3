// Where a key lives: its partition, and its place within the partition's index, from one hash.
#ifndef SHOAL_SERVER_STORE_KEY_HASH_H_
#define SHOAL_SERVER_STORE_KEY_HASH_H_

#include <cstdint>

#include "base/hash.h"

namespace shoal {

struct KeyPlace {
  uint32_t partition;
  uint64_t within;  // uniform over 64 bits among the keys of one partition
};

// partition equals PartitionOfKey. The high half of hash * partitions is the partition; its low half is what the
// division left over, hence uniform inside the partition, so that one mix serves both.
inline KeyPlace PlaceOfKey(uint64_t key, uint32_t partitions) {
  const unsigned __int128 product = static_cast<unsigned __int128>(Mix64(key ^ 0x5bd1e9955bd1e995ULL)) * partitions;
  return {static_cast<uint32_t>(product >> 64), static_cast<uint64_t>(product)};
}

}  // namespace shoal

#endif  // SHOAL_SERVER_STORE_KEY_HASH_H_
