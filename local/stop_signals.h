// SIGINT, SIGTERM, SIGUSR1 and SIGUSR2 as something that can be waited for.
#ifndef SHOAL_LOCAL_STOP_SIGNALS_H_
#define SHOAL_LOCAL_STOP_SIGNALS_H_

#include <atomic>
#include <thread>

#include "absl/time/time.h"
#include "base/mutex.h"

namespace shoal {

// From construction on the first of these signals sets stopped(); a second one ends the process at once with status 1.
// Make it before any other thread, so that all threads leave the signals to it. Thread-safe; one per process.
class StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  const std::atomic<bool>& stopped() const { return stopped_; }
  // Waits until a signal has come, at most `timeout`; true when one has.
  bool WaitFor(absl::Duration timeout);

 private:
  void Listen();

  std::atomic<bool> stopped_{false};
  std::atomic<bool> quit_{false};
  Mutex mu_;
  CondVar changed_;
  std::thread listener_;
};

}  // namespace shoal

#endif  // SHOAL_LOCAL_STOP_SIGNALS_H_
