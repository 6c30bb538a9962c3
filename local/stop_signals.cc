#include "local/stop_signals.h"

#include <pthread.h>
#include <signal.h>

#include <cstdlib>

namespace shoal {
namespace {

sigset_t StopSet() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  // Some platforms announce the end of a machine or a time slice by these.
  sigaddset(&set, SIGUSR1);
  sigaddset(&set, SIGUSR2);
  return set;
}

}  // namespace

StopSignals::StopSignals() {
  // Blocked signals stay pending until Listen takes them, so none is lost and no handler with global state is needed.
  const sigset_t set = StopSet();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  listener_ = std::thread([this] { Listen(); });
}

StopSignals::~StopSignals() {
  quit_ = true;
  listener_.join();
}

void StopSignals::Listen() {
  const sigset_t set = StopSet();
  // Bounds how long the destructor waits; five wake-ups a second cost nothing measurable.
  const timespec pause = {0, 200 * 1000 * 1000};
  while (!quit_) {
    if (sigtimedwait(&set, nullptr, &pause) < 0) continue;
    if (stopped_) std::_Exit(1);
    stopped_ = true;
    MutexLock lock(&mu_);
    changed_.SignalAll();
  }
}

bool StopSignals::WaitFor(absl::Duration timeout) {
  MutexLock lock(&mu_);
  if (!stopped_) changed_.WaitFor(&mu_, timeout);
  return stopped_;
}

}  // namespace shoal
