// The hashes that are part of shoal's formats. They are frozen: changing one makes every checkpoint unreadable
// (docs/wire.md states them for other implementations).
#ifndef SHOAL_BASE_HASH_H_
#define SHOAL_BASE_HASH_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "base/random.h"

namespace shoal {

// XXH64 of the bytes with the given seed.
uint64_t HashBytes(absl::string_view bytes, uint64_t seed = 0);

// Feature key of a token in a slot: XXH64(token, seed = XXH64(slot name, 0)). Compute `slot_seed` once per slot.
inline uint64_t SlotSeed(absl::string_view slot) { return HashBytes(slot); }
inline uint64_t FeatureKey(uint64_t slot_seed, absl::string_view token) { return HashBytes(token, slot_seed); }

// Partition of a sparse key: the same in every table. Mixed again, so that keys that came from outside spread too.
inline uint32_t PartitionOfKey(uint64_t key, uint32_t partitions) {
  return static_cast<uint32_t>((static_cast<unsigned __int128>(Mix64(key ^ 0x5bd1e9955bd1e995ULL)) * partitions) >> 64);
}

// Partition of block `block` of a dense tensor.
inline uint32_t PartitionOfBlock(absl::string_view tensor, uint64_t block, uint32_t partitions) {
  return PartitionOfKey(HashCoordinates({HashBytes(tensor), block}), partitions);
}

}  // namespace shoal

#endif  // SHOAL_BASE_HASH_H_
