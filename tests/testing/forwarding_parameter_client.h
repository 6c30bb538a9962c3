// A ParameterClient that passes everything on: base class of test clients that tamper with one call.
#ifndef SHOAL_TESTS_TESTING_FORWARDING_PARAMETER_CLIENT_H_
#define SHOAL_TESTS_TESTING_FORWARDING_PARAMETER_CLIENT_H_

#include <memory>
#include <utility>

#include "worker/client/parameter_client.h"

namespace shoal {

// As thread-safe as the client inside, which several may share; they keep it.
class ForwardingParameterClient : public ParameterClient {
 public:
  explicit ForwardingParameterClient(std::shared_ptr<ParameterClient> inner) : inner_(std::move(inner)) {}

  void OpenSplit(const OpenSplitRequest* request, absl::Duration timeout, OpenSplitReply* reply, Done done) override {
    inner_->OpenSplit(request, timeout, reply, std::move(done));
  }
  void Pull(const PullRequest* request, absl::Duration timeout, PullReply* reply, Done done) override {
    inner_->Pull(request, timeout, reply, std::move(done));
  }
  void Push(const PushRequest* request, absl::Duration timeout, PushReply* reply, Done done) override {
    inner_->Push(request, timeout, reply, std::move(done));
  }
  void Mark(const MarkRequest* request, absl::Duration timeout, MarkReply* reply, Done done) override {
    inner_->Mark(request, timeout, reply, std::move(done));
  }
  void Abort(Calls calls) override { inner_->Abort(calls); }

 private:
  const std::shared_ptr<ParameterClient> inner_;
};

}  // namespace shoal

#endif  // SHOAL_TESTS_TESTING_FORWARDING_PARAMETER_CLIENT_H_
