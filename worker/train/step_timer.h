// Where the time of a lane goes: the stall breakdown.
#ifndef SHOAL_WORKER_TRAIN_STEP_TIMER_H_
#define SHOAL_WORKER_TRAIN_STEP_TIMER_H_

#include <algorithm>
#include <utility>

#include "absl/time/time.h"
#include "base/clock.h"
#include "proto/scheduler.pb.h"

namespace shoal {

// Divides the time of one lane among the parts of a step: every moment between Start and Take belongs to exactly one.
// Owned by the lane; not thread-safe.
class StepTimer {
 public:
  enum Part { kData, kPull, kCompute, kPush, kOther, kParts };

  // While it lives, time belongs to `part`; then to what it belonged to before.
  class Scope {
   public:
    Scope(StepTimer* timer, Part part) : timer_(*timer), before_(timer->Switch(part)) {}
    ~Scope() { timer_.Switch(before_); }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    StepTimer& timer_;
    const Part before_;
  };

  // `clock` outlives the timer.
  explicit StepTimer(const Clock* clock) : clock_(*clock), since_(clock->Now()) {}

  // Time until now belongs to nobody.
  void Start() { since_ = clock_.Now(); }

  // A pull has come that was parked for so long at a gate: what of it the lane spent waiting was for the gate.
  void PullEnded(absl::Duration parked) {
    Switch(part_);
    const absl::Duration waited = std::min(parked, pull_since_end_);
    spent_[kPull] -= waited;
    gate_ += waited;
    pull_since_end_ = absl::ZeroDuration();
  }

  // What was spent since the last call.
  StepTime Take() {
    Switch(part_);
    StepTime time;
    time.set_data_us(TakeMicroseconds(&spent_[kData]));
    time.set_pull_us(TakeMicroseconds(&spent_[kPull]));
    time.set_compute_us(TakeMicroseconds(&spent_[kCompute]));
    time.set_push_us(TakeMicroseconds(&spent_[kPush]));
    time.set_other_us(TakeMicroseconds(&spent_[kOther]));
    time.set_gate_us(TakeMicroseconds(&gate_));
    pull_since_end_ = std::min(pull_since_end_, spent_[kPull]);
    return time;
  }

 private:
  Part Switch(Part part) {
    const absl::Duration now = clock_.Now();
    spent_[part_] += now - since_;
    if (part_ == kPull) pull_since_end_ += now - since_;
    since_ = now;
    return std::exchange(part_, part);
  }

  // Whole microseconds; the rest is left for the next time.
  static uint64_t TakeMicroseconds(absl::Duration* spent) {
    const int64_t whole = absl::ToInt64Microseconds(*spent);
    *spent -= absl::Microseconds(whole);
    return static_cast<uint64_t>(whole);
  }

  const Clock& clock_;
  absl::Duration since_;
  Part part_ = kOther;
  absl::Duration spent_[kParts];
  absl::Duration gate_;
  absl::Duration pull_since_end_;  // part of spent_[kPull]: not yet told from the gate
};

}  // namespace shoal

#endif  // SHOAL_WORKER_TRAIN_STEP_TIMER_H_
