// A server across the network.
#ifndef SHOAL_WORKER_CLIENT_GRPC_PARAMETER_CLIENT_H_
#define SHOAL_WORKER_CLIENT_GRPC_PARAMETER_CLIENT_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "worker/client/parameter_client.h"

namespace shoal {

// Thread-safe. A server that cannot be reached answers UNAVAILABLE at once; the connection comes back by itself. Pulls
// need `dims` in their groups and `dense_floats` in the reply, pushes need `dims`: what is missing is INVALID_ARGUMENT,
// as is a message larger than kMaxMessageBytes. Clients of one address share connections.
class GrpcParameterClient : public ParameterClient {
 public:
  // Does not connect yet: the first call does. INVALID_ARGUMENT when `address` is not host:port.
  static absl::StatusOr<std::unique_ptr<GrpcParameterClient>> Create(const std::string& address);
  // Cancels the calls in flight and waits for their callbacks. REQUIRES: not called from a callback.
  ~GrpcParameterClient() override;

  void OpenSplit(const OpenSplitRequest* request, absl::Duration timeout, OpenSplitReply* reply, Done done) override;
  void Pull(const PullRequest* request, absl::Duration timeout, PullReply* reply, Done done) override;
  void Push(const PushRequest* request, absl::Duration timeout, PushReply* reply, Done done) override;
  void Mark(const MarkRequest* request, absl::Duration timeout, MarkReply* reply, Done done) override;
  void Abort(Calls calls) override;

 private:
  class Impl;
  explicit GrpcParameterClient(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_CLIENT_GRPC_PARAMETER_CLIENT_H_
