#include "worker/train/step_timer.h"

#include <catch2/catch.hpp>

namespace shoal {
namespace {

using absl::Milliseconds;

TEST_CASE("StepTimer: every moment belongs to one part, nested ones to the inner", "[unit]") {
  FakeClock clock;
  StepTimer timer(&clock);
  clock.Advance(Milliseconds(500));
  timer.Start();  // what was before does not count
  clock.Advance(Milliseconds(1));
  {
    const StepTimer::Scope outer(&timer, StepTimer::kPush);
    clock.Advance(Milliseconds(2));
    {
      const StepTimer::Scope inner(&timer, StepTimer::kData);
      clock.Advance(Milliseconds(4));
    }
    clock.Advance(Milliseconds(8));
  }
  {
    const StepTimer::Scope compute(&timer, StepTimer::kCompute);
    clock.Advance(Milliseconds(16));
  }
  const StepTime time = timer.Take();
  CHECK(time.other_us() == 1000);
  CHECK(time.push_us() == 10000);
  CHECK(time.data_us() == 4000);
  CHECK(time.compute_us() == 16000);
  CHECK(time.pull_us() == 0);
  CHECK(time.gate_us() == 0);
  CHECK(timer.Take().other_us() == 0);
}

TEST_CASE("StepTimer: the gate gets what the lane waited of the time that a pull was parked", "[unit]") {
  FakeClock clock;
  StepTimer timer(&clock);
  const auto wait = [&](int ms) {
    const StepTimer::Scope pull(&timer, StepTimer::kPull);
    clock.Advance(Milliseconds(ms));
  };
  wait(10);
  timer.PullEnded(Milliseconds(7));
  wait(5);
  timer.PullEnded(Milliseconds(50));  // parked while the lane computed, mostly
  wait(3);
  timer.PullEnded(absl::ZeroDuration());
  const StepTime time = timer.Take();
  CHECK(time.gate_us() == 12000);
  CHECK(time.pull_us() == 6000);
}

TEST_CASE("StepTimer: parts of a microsecond are not lost, and a wait that is taken in two keeps its gate", "[unit]") {
  FakeClock clock;
  StepTimer timer(&clock);
  uint64_t other = 0;
  for (int i = 0; i < 10; ++i) {
    clock.Advance(absl::Nanoseconds(700));
    other += timer.Take().other_us();
  }
  CHECK(other == 7);
  {
    const StepTimer::Scope pull(&timer, StepTimer::kPull);
    clock.Advance(Milliseconds(4));
    CHECK(timer.Take().pull_us() == 4000);
    clock.Advance(Milliseconds(6));
    timer.PullEnded(Milliseconds(8));  // 4 ms of it are reported as waiting for rows already
  }
  const StepTime time = timer.Take();
  CHECK(time.gate_us() == 6000);
  CHECK(time.pull_us() == 0);
}

}  // namespace
}  // namespace shoal
