#include "proto/rpc/ticker.h"

#include <utility>

namespace shoal {

Ticker::Ticker(absl::Duration every, std::function<void()> tick)
    : every_(every), tick_(std::move(tick)), thread_([this] { Run(); }) {}

void Ticker::Stop() {
  {
    MutexLock lock(&mu_);
    stop_ = true;
    stopped_.SignalAll();
  }
  MutexLock lock(&join_mu_);
  if (thread_.joinable()) thread_.join();
}

void Ticker::Run() {
  for (;;) {
    {
      MutexLock lock(&mu_);
      if (!stop_) stopped_.WaitFor(&mu_, every_);
      if (stop_) return;
    }
    tick_();
  }
}

}  // namespace shoal
