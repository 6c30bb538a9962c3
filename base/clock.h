// Clocks: every wait and deadline uses a steady clock that is passed in, so that tests can move time by hand.
#ifndef SHOAL_BASE_CLOCK_H_
#define SHOAL_BASE_CLOCK_H_

#include <cstdint>

#include "absl/time/time.h"
#include "base/mutex.h"

namespace shoal {

// A steady clock. Thread-safe.
class Clock {
 public:
  virtual ~Clock() = default;
  // Time since an arbitrary fixed point; never goes back, unaffected by changes of the wall clock.
  virtual absl::Duration Now() const = 0;

  // The machine's steady clock; lives for ever.
  static const Clock& Steady();
};

// A clock that stands still until it is told. Thread-safe.
class FakeClock : public Clock {
 public:
  absl::Duration Now() const override {
    MutexLock lock(&mu_);
    return now_;
  }
  void Advance(absl::Duration by) {
    MutexLock lock(&mu_);
    now_ += by;
  }

 private:
  mutable Mutex mu_;
  absl::Duration now_ ABSL_GUARDED_BY(mu_) = absl::Seconds(1000);
};

}  // namespace shoal

#endif  // SHOAL_BASE_CLOCK_H_
