// The answer to one unary call that may come late, from any thread, or never because the caller is gone.
#ifndef SHOAL_PROTO_RPC_UNARY_CALL_H_
#define SHOAL_PROTO_RPC_UNARY_CALL_H_

#include <grpcpp/support/server_callback.h>

#include <atomic>
#include <map>
#include <memory>

#include "absl/time/time.h"
#include "base/mutex.h"

namespace shoal {

class UnaryCall;

// The calls of a service that have not been answered. Thread-safe. Outlives the calls' answers.
class CallRegistry {
 public:
  // For the end of a service: waits at most `grace` for answers, then answers what is left with UNAVAILABLE, and from
  // then on every new call at once. (gRPC alone would cancel parked calls, which a client cannot tell from a refusal.)
  void EndAll(absl::Duration grace);

 private:
  friend class UnaryCall;
  // False when the service has ended.
  bool Add(const std::shared_ptr<UnaryCall>& call);
  void Remove(UnaryCall* call);

  Mutex mu_;
  CondVar empty_;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  std::map<UnaryCall*, std::weak_ptr<UnaryCall>> calls_ ABSL_GUARDED_BY(mu_);
};

// What a handler keeps of a call. Derive from it to hold the request, the reply and whatever else must live until both
// gRPC and the handler are through: the call is freed when the last of them drops its reference. Thread-safe.
class UnaryCall {
 public:
  virtual ~UnaryCall() = default;

  // What the service method returns to gRPC. Ends the call at once when the service has ended.
  static grpc::ServerUnaryReactor* Start(const std::shared_ptr<UnaryCall>& call, CallRegistry* registry);

  // Ends the call with the status that `fill` returns, unless it has ended already (a cancelled one has). Only then
  // does `fill` run and may touch gRPC's response object: it is gone once a call has ended.
  template <typename Fill>
  void Finish(Fill fill) {
    if (ended_.exchange(true)) return;
    const grpc::Status status = fill();
    registry_->Remove(this);
    reactor_->Finish(status);
  }

 private:
  class Reactor;

  std::atomic<bool> ended_{false};
  // Both are set by Start, before the handler sees the call, and valid until it has ended.
  CallRegistry* registry_ = nullptr;
  grpc::ServerUnaryReactor* reactor_ = nullptr;
};

}  // namespace shoal

#endif  // SHOAL_PROTO_RPC_UNARY_CALL_H_
