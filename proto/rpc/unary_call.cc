#include "proto/rpc/unary_call.h"

#include <utility>
#include <vector>

#include "base/clock.h"

namespace shoal {
namespace {

grpc::Status ShuttingDown() { return grpc::Status(grpc::StatusCode::UNAVAILABLE, "server is shutting down"); }

}  // namespace

bool CallRegistry::Add(const std::shared_ptr<UnaryCall>& call) {
  MutexLock lock(&mu_);
  if (ended_) return false;
  calls_.emplace(call.get(), call);
  return true;
}

void CallRegistry::Remove(UnaryCall* call) {
  MutexLock lock(&mu_);
  calls_.erase(call);
  if (calls_.empty()) empty_.SignalAll();
}

void CallRegistry::EndAll(absl::Duration grace) {
  const Clock& clock = Clock::Steady();
  const absl::Duration deadline = clock.Now() + grace;
  std::vector<std::shared_ptr<UnaryCall>> left;
  {
    MutexLock lock(&mu_);
    while (!calls_.empty()) {
      const absl::Duration wait = deadline - clock.Now();
      if (wait <= absl::ZeroDuration()) break;
      empty_.WaitFor(&mu_, wait);
    }
    ended_ = true;
    for (const auto& [unused, call] : calls_) left.push_back(call.lock());
  }
  for (const std::shared_ptr<UnaryCall>& call : left) {
    if (call != nullptr) call->Finish(ShuttingDown);
  }
}

// Deletes itself, as gRPC wants it.
class UnaryCall::Reactor : public grpc::ServerUnaryReactor {
 public:
  explicit Reactor(std::shared_ptr<UnaryCall> call) : call_(std::move(call)) {}

  // The client is gone or its deadline has passed: nobody waits for the handler's answer.
  void OnCancel() override {
    call_->Finish([] { return grpc::Status(grpc::StatusCode::CANCELLED, "call cancelled"); });
  }
  void OnDone() override { delete this; }

 private:
  const std::shared_ptr<UnaryCall> call_;
};

grpc::ServerUnaryReactor* UnaryCall::Start(const std::shared_ptr<UnaryCall>& call, CallRegistry* registry) {
  call->registry_ = registry;
  call->reactor_ = new Reactor(call);
  grpc::ServerUnaryReactor* const reactor = call->reactor_;
  if (!registry->Add(call)) call->Finish(ShuttingDown);
  return reactor;
}

}  // namespace shoal
