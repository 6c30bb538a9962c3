// The small things that everything else stands on.
#include <catch2/catch.hpp>
#include <map>
#include <thread>

#include "base/clock.h"
#include "base/hash.h"
#include "base/machine.h"
#include "base/mutex.h"
#include "base/random.h"
#include "base/status_macros.h"

namespace shoal {
namespace {

TEST_CASE("Random: a stream is a function of its coordinates, in order", "[base][unit]") {
  Random a({1, 2, 3}), same({1, 2, 3}), other({1, 3, 2});
  for (int i = 0; i < 10; ++i) {
    const uint64_t value = a.Next();
    CHECK(value == same.Next());
    CHECK(value != other.Next());
  }
}

TEST_CASE("Random: uniform, bounded and normal draws have their moments", "[base][unit]") {
  Random random({42});
  constexpr int kDraws = 200000;
  double sum = 0, normal_sum = 0, normal_squares = 0;
  std::map<uint64_t, int> counts;
  for (int i = 0; i < kDraws; ++i) {
    const double u = random.Uniform();
    REQUIRE((u >= 0 && u < 1));
    sum += u;
    ++counts[random.Below(10)];
    const double z = random.Normal();
    normal_sum += z;
    normal_squares += z * z;
  }
  // Five standard errors of each mean.
  CHECK(sum / kDraws == Approx(0.5).margin(5 * 0.2887 / std::sqrt(kDraws)));
  CHECK(normal_sum / kDraws == Approx(0).margin(5 / std::sqrt(kDraws)));
  CHECK(normal_squares / kDraws == Approx(1).margin(5 * std::sqrt(2.0 / kDraws)));
  REQUIRE(counts.size() == 10);
  for (const auto& [value, count] : counts) CHECK(count == Approx(kDraws / 10).margin(5 * std::sqrt(kDraws * 0.09)));
}

TEST_CASE("Random: permutations hold every number once and differ between passes", "[base][unit]") {
  const std::vector<uint32_t> first = SplitOrder(1, 0, 1000), second = SplitOrder(1, 1, 1000);
  CHECK(first != second);
  CHECK(first == SplitOrder(1, 0, 1000));
  std::vector<uint32_t> sorted = first;
  std::sort(sorted.begin(), sorted.end());
  for (uint32_t i = 0; i < sorted.size(); ++i) REQUIRE(sorted[i] == i);
  CHECK(SplitOrder(1, 0, 0).empty());
}

TEST_CASE("Hash: partitions of keys are balanced, also for keys that came from outside", "[base][unit]") {
  std::vector<int> counts(256);
  for (uint64_t key = 0; key < 256000; ++key) ++counts[PartitionOfKey(key, 256)];
  for (int count : counts) CHECK(count == Approx(1000).margin(6 * std::sqrt(1000)));
  CHECK(PartitionOfKey(~uint64_t{0}, 1) == 0);
}

TEST_CASE("Hash: the same token in two slots gives two keys", "[base][unit]") {
  CHECK(FeatureKey(SlotSeed("C1"), "abc") != FeatureKey(SlotSeed("C2"), "abc"));
  CHECK(FeatureKey(SlotSeed("C1"), "abc") == FeatureKey(SlotSeed("C1"), "abc"));
}

TEST_CASE("Clock: the steady clock goes on, the fake one stands until told", "[base][unit]") {
  const absl::Duration before = Clock::Steady().Now();
  CHECK(Clock::Steady().Now() >= before);
  FakeClock fake;
  const absl::Duration start = fake.Now();
  CHECK(fake.Now() == start);
  fake.Advance(absl::Seconds(5));
  CHECK(fake.Now() == start + absl::Seconds(5));
}

TEST_CASE("Mutex: a condition variable wakes on a signal and gives up after its bound", "[base][unit]") {
  Mutex mu;
  CondVar cv;
  bool ready = false;
  {
    MutexLock lock(&mu);
    CHECK_FALSE(cv.WaitFor(&mu, absl::Milliseconds(1)));
  }
  std::thread other([&] {
    MutexLock lock(&mu);
    ready = true;
    cv.SignalAll();
  });
  bool seen = false;
  {
    MutexLock lock(&mu);
    for (int i = 0; i < 1000 && !ready; ++i) cv.WaitFor(&mu, absl::Milliseconds(10));
    seen = ready;
  }
  other.join();
  CHECK(seen);
}

absl::StatusOr<int> Half(int value) {
  if (value % 2 != 0) return absl::InvalidArgumentError("odd");
  return value / 2;
}

absl::Status Quarter(int value, int* out) {
  SHOAL_ASSIGN_OR_RETURN(const int half, Half(value));
  SHOAL_ASSIGN_OR_RETURN(*out, Half(half));
  SHOAL_RETURN_IF_ERROR(absl::OkStatus());
  return absl::OkStatus();
}

TEST_CASE("Status macros: the first error returns and nothing after it runs", "[base][unit]") {
  int out = 0;
  CHECK(Quarter(12, &out).ok());
  CHECK(out == 3);
  CHECK(Quarter(6, &out) == absl::InvalidArgumentError("odd"));
  CHECK(out == 3);
}

TEST_CASE("Machine: there is at least one core and some memory", "[base][unit]") {
  CHECK(UsableCores() >= 1);
  CHECK(MemoryBytes() > (uint64_t{1} << 24));
  CHECK_FALSE(HostName().empty());
}

}  // namespace
}  // namespace shoal
