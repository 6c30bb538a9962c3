#include "worker/routing/hot_rows.h"

#include <catch2/catch.hpp>

#include "base/random.h"

namespace shoal {
namespace {

TEST_CASE("HotRowTable: a row fetched at clock m serves batch c only while c <= m + staleness", "[unit]") {
  for (uint64_t staleness : {0, 1, 4}) {
    HotRowTable rows({3}, 1 << 16, staleness);
    CHECK(rows.Find(0, 7, 0) == nullptr);
    for (uint64_t m : {0, 5, 1000}) {
      float* const values = rows.Put(0, 7, m);
      REQUIRE(values != nullptr);
      for (int i = 0; i < 3; ++i) values[i] = static_cast<float>(m + i);
      for (uint64_t c = m; c <= m + staleness; ++c) {
        const float* const found = rows.Find(0, 7, c);
        REQUIRE(found != nullptr);
        CHECK(found[2] == static_cast<float>(m + 2));
      }
      CHECK(rows.Find(0, 7, m + staleness + 1) == nullptr);
      CHECK(rows.Find(0, 8, m) == nullptr);
    }
    rows.Clear();
    CHECK(rows.Find(0, 7, 0) == nullptr);
  }
}

TEST_CASE("HotRowTable: memory is bounded, and every row found is the one that was put", "[unit]") {
  constexpr uint64_t kBytes = 10'000;
  HotRowTable rows({1, 16}, kBytes, 2);
  const uint64_t before = rows.bytes();
  CHECK(before <= kBytes);
  CHECK(before > kBytes / 2);
  Random random({3});
  uint64_t found = 0;
  for (uint64_t c = 0; c < 5000; ++c) {
    const uint32_t group = static_cast<uint32_t>(random.Below(2));
    const uint64_t key = random.Below(200);
    const float* const kept = rows.Find(group, key, c / 100);
    if (kept != nullptr) {
      ++found;
      REQUIRE(kept[0] == static_cast<float>(key * 2 + group));
      continue;
    }
    float* const values = rows.Put(group, key, c / 100);
    REQUIRE(values != nullptr);
    for (uint32_t i = 0; i < (group == 0 ? 1 : 16); ++i) values[i] = static_cast<float>(key * 2 + group);
  }
  CHECK(found > 500);
  CHECK(rows.bytes() == before);
}

TEST_CASE("HotRowTable: no room means no rows, not an error", "[unit]") {
  HotRowTable rows({4}, 10, 2);
  CHECK(rows.Put(0, 1, 0) == nullptr);
  CHECK(rows.Find(0, 1, 0) == nullptr);
  CHECK(rows.bytes() == 0);
}

}  // namespace
}  // namespace shoal
