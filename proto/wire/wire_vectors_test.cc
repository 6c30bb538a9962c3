// The test vectors of docs/wire.md: hashes and random numbers must never change.
#include <catch2/catch.hpp>
#include <vector>

#include "base/hash.h"
#include "base/random.h"

namespace shoal {
namespace {

TEST_CASE("Hashes: the vectors of docs/wire.md", "[wire][unit]") {
  CHECK(HashBytes("") == 0xef46db3751d8e999u);
  CHECK(SlotSeed("C1") == 0x1b1aa2e0df451f4du);
  const uint64_t key = FeatureKey(SlotSeed("C1"), "68fd1e64");
  CHECK(key == 0x5b9d2cca195fb7d7u);
  CHECK(Mix64(1) == 0x5692161d100b05e5u);
  CHECK(HashCoordinates({}) == 0x9e3779b97f4a7c15u);
  CHECK(HashCoordinates({1, 2, 3}) == 0x02adf5f171127e9eu);
  CHECK(PartitionOfKey(key, 256) == 77);
  CHECK(PartitionOfKey(0, 256) == 9);
  CHECK(PartitionOfKey(1, 256) == 144);
  CHECK(PartitionOfKey(~uint64_t{0}, 7) == 3);
  CHECK(PartitionOfBlock("dense0/weight", 0, 256) == 157);
  CHECK(PartitionOfBlock("dense0/weight", 1, 256) == 188);
}

TEST_CASE("Random numbers: the vectors of docs/wire.md", "[wire][unit]") {
  Random random({42, 7});
  CHECK(random.Next() == 0x8fc2928aa64997acu);
  CHECK(random.Next() == 0x1565fc395c1bf957u);
  CHECK(Random(HashCoordinates({1})).Uniform() == 0.4129006739640374);
  CHECK(SplitOrder(42, 0, 8) == std::vector<uint32_t>{2, 0, 5, 4, 6, 7, 1, 3});
  CHECK(Permutation<uint32_t>(5, {1, 2, 3}) == std::vector<uint32_t>{0, 3, 1, 2, 4});
}

}  // namespace
}  // namespace shoal
