#include "worker/routing/router.h"

#include <catch2/catch.hpp>
#include <set>

#include "base/hash.h"
#include "base/random.h"

namespace shoal {
namespace {

Batch MakeBatch(const std::vector<std::vector<uint64_t>>& slots) {
  Batch batch;
  batch.slots.resize(slots.size());
  batch.Clear();
  batch.rows = 1;
  for (size_t s = 0; s < slots.size(); ++s) {
    batch.slots[s].keys = slots[s];
    batch.slots[s].offsets.push_back(static_cast<uint32_t>(slots[s].size()));
  }
  return batch;
}

TEST_CASE("Router: one partition keeps the order of first sight", "[unit]") {
  Router router({0, 2}, 1);
  KeyGroup group;
  router.Route(MakeBatch({{9, 5, 9}, {1000}, {5, 7}}), &group);
  CHECK(group.keys == std::vector<uint64_t>{9, 5, 7});
  CHECK(group.slots == std::vector<uint16_t>{0, 0, 2});
  CHECK(group.partition_begin == std::vector<uint32_t>{0, 3});
  REQUIRE(group.inverse.size() == 3);
  CHECK(group.inverse[0] == std::vector<uint32_t>{0, 1, 0});
  CHECK(group.inverse[1].empty());
  CHECK(group.inverse[2] == std::vector<uint32_t>{1, 2});
}

TEST_CASE("Router: an empty batch and one without slots give no keys", "[unit]") {
  KeyGroup group;
  Router({0}, 3).Route(MakeBatch({{}}), &group);
  CHECK(group.keys.empty());
  CHECK(group.partition_begin == std::vector<uint32_t>{0, 0, 0, 0});
  Router({}, 2).Route(MakeBatch({{4}}), &group);
  CHECK(group.keys.empty());
  CHECK(group.partition_begin == std::vector<uint32_t>{0, 0, 0});
  CHECK(group.inverse[0].empty());
}

// Everything that KeyGroup promises, checked against its definition.
void CheckGroup(const Batch& batch, const std::vector<uint32_t>& slots, uint32_t partitions, const KeyGroup& group) {
  std::vector<std::vector<uint64_t>> expected(partitions);
  std::vector<std::vector<uint16_t>> expected_slots(partitions);
  std::set<uint64_t> seen;
  for (uint32_t s : slots) {
    for (uint64_t key : batch.slots[s].keys) {
      if (!seen.insert(key).second) continue;
      expected[PartitionOfKey(key, partitions)].push_back(key);
      expected_slots[PartitionOfKey(key, partitions)].push_back(static_cast<uint16_t>(s));
    }
  }
  REQUIRE(group.keys.size() == seen.size());
  REQUIRE(group.slots.size() == seen.size());
  REQUIRE(group.partition_begin.size() == partitions + 1);
  for (uint32_t p = 0; p < partitions; ++p) {
    const std::vector<uint64_t> keys(group.keys.begin() + group.partition_begin[p],
                                     group.keys.begin() + group.partition_begin[p + 1]);
    REQUIRE(keys == expected[p]);
    REQUIRE(std::vector<uint16_t>(group.slots.begin() + group.partition_begin[p],
                                  group.slots.begin() + group.partition_begin[p + 1]) == expected_slots[p]);
  }
  for (uint32_t s : slots) {
    REQUIRE(group.inverse[s].size() == batch.slots[s].keys.size());
    for (size_t i = 0; i < batch.slots[s].keys.size(); ++i) {
      REQUIRE(group.keys[group.inverse[s][i]] == batch.slots[s].keys[i]);
    }
  }
}

TEST_CASE("Router: batches of all sizes through one router equal those of a new one", "[unit]") {
  Random random({5});
  Router reused({0, 1, 3}, 16);
  KeyGroup group;
  for (size_t size : {10, 3000, 1, 40, 3000, 0, 700}) {
    std::vector<std::vector<uint64_t>> slots(4);
    for (std::vector<uint64_t>& slot : slots) {
      for (size_t i = 0; i < size; ++i) slot.push_back(random.Below(1 + size / 2) * 0x9e3779b97f4a7c15ULL);
    }
    const Batch batch = MakeBatch(slots);
    reused.Route(batch, &group);
    CheckGroup(batch, {0, 1, 3}, 16, group);
    CHECK(group.inverse[2].empty());
    KeyGroup fresh;
    Router({0, 1, 3}, 16).Route(batch, &fresh);
    CHECK(fresh.keys == group.keys);
    CHECK(fresh.inverse == group.inverse);
  }
}

TEST_CASE("Router: a repeated batch allocates nothing new", "[unit]") {
  std::vector<uint64_t> keys;
  for (uint64_t i = 0; i < 1000; ++i) keys.push_back(Mix64(i % 300));
  const Batch batch = MakeBatch({keys});
  Router router({0}, 8);
  KeyGroup group;
  router.Route(batch, &group);
  const uint64_t* const keys_at = group.keys.data();
  const uint32_t* const inverse_at = group.inverse[0].data();
  for (int i = 0; i < 10; ++i) router.Route(batch, &group);
  CHECK(group.keys.data() == keys_at);
  CHECK(group.inverse[0].data() == inverse_at);
  CHECK(group.keys.size() == 300);
}

TEST_CASE("Router: keys 0 and 2^64 - 1 are keys like any other", "[unit]") {
  Router router({0}, 4);
  KeyGroup group;
  const Batch batch = MakeBatch({{0, ~uint64_t{0}, 0, 1}});
  router.Route(batch, &group);
  CheckGroup(batch, {0}, 4, group);
}

}  // namespace
}  // namespace shoal
