// A set of calls in flight, one slot per server, that a lane waits for together.
#ifndef SHOAL_WORKER_TRAIN_CALL_SET_H_
#define SHOAL_WORKER_TRAIN_CALL_SET_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/mutex.h"
#include "worker/client/parameter_client.h"

namespace shoal {

// Told when any call of several CallSets has ended, so that one thread can wait for whichever is first. Thread-safe.
class Wakeup {
 public:
  void Notify() {
    MutexLock lock(&mu_);
    ++events_;
    cv_.SignalAll();
  }
  // Waits until more than `seen` events have happened, at most `timeout`; returns how many have.
  uint64_t WaitBeyond(uint64_t seen, absl::Duration timeout) {
    MutexLock lock(&mu_);
    if (events_ <= seen) cv_.WaitFor(&mu_, timeout);
    return events_;
  }
  uint64_t events() {
    MutexLock lock(&mu_);
    return events_;
  }

 private:
  Mutex mu_;
  CondVar cv_;
  uint64_t events_ ABSL_GUARDED_BY(mu_) = 0;
};

// Thread-safe towards the calls' callbacks; used by one lane. Must outlive its calls: the destructor waits for them,
// and each ends by its own deadline.
class CallSet {
 public:
  // `wakeup` may be null.
  explicit CallSet(Wakeup* wakeup = nullptr) : wakeup_(wakeup) {}
  ~CallSet() { WaitAll(); }

  // Sets the number of slots. REQUIRES: no call in flight.
  void Reset(size_t slots) {
    MutexLock lock(&mu_);
    statuses_.assign(slots, absl::OkStatus());
  }
  // The callback for a call of `slot`, which is in flight from now on.
  ParameterClient::Done Begin(size_t slot) {
    MutexLock lock(&mu_);
    ++in_flight_;
    return [this, slot](absl::Status status) { End(slot, std::move(status)); };
  }
  bool Idle() {
    MutexLock lock(&mu_);
    return in_flight_ == 0;
  }
  // Waits until no call is in flight. Bounded by the calls' own deadlines.
  void WaitAll() {
    MutexLock lock(&mu_);
    while (in_flight_ > 0) cv_.WaitFor(&mu_, absl::Milliseconds(200));
  }
  // REQUIRES: Idle().
  absl::Status status(size_t slot) {
    MutexLock lock(&mu_);
    return statuses_[slot];
  }

 private:
  void End(size_t slot, absl::Status status) {
    Wakeup* const wakeup = wakeup_;
    {
      MutexLock lock(&mu_);
      statuses_[slot] = std::move(status);
      // Signalled under the lock: the owner may destroy this object as soon as it sees zero.
      if (--in_flight_ == 0) cv_.SignalAll();
      if (wakeup != nullptr) wakeup->Notify();
    }
  }

  Wakeup* const wakeup_;
  Mutex mu_;
  CondVar cv_;
  int in_flight_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<absl::Status> statuses_ ABSL_GUARDED_BY(mu_);
};

}  // namespace shoal

#endif  // SHOAL_WORKER_TRAIN_CALL_SET_H_
