// Calls a function again and again from its own thread.
#ifndef SHOAL_PROTO_RPC_TICKER_H_
#define SHOAL_PROTO_RPC_TICKER_H_

#include <functional>
#include <thread>

#include "absl/time/time.h"
#include "base/mutex.h"

namespace shoal {

// Owns one thread. Stop is thread-safe and returns when the function runs no more.
class Ticker {
 public:
  Ticker(absl::Duration every, std::function<void()> tick);
  ~Ticker() { Stop(); }

  void Stop();

 private:
  void Run();

  const absl::Duration every_;
  const std::function<void()> tick_;
  Mutex mu_;
  CondVar stopped_;
  bool stop_ ABSL_GUARDED_BY(mu_) = false;
  Mutex join_mu_;  // one Stop joins
  std::thread thread_;
};

}  // namespace shoal

#endif  // SHOAL_PROTO_RPC_TICKER_H_
