#include "base/clock.h"

#include <chrono>

namespace shoal {
namespace {

class SteadyClock : public Clock {
 public:
  absl::Duration Now() const override {
    return absl::FromChrono(
        std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()));
  }
};

}  // namespace

const Clock& Clock::Steady() {
  static const SteadyClock* const clock = new SteadyClock;  // never destroyed: daemons read it until the last line
  return *clock;
}

}  // namespace shoal
