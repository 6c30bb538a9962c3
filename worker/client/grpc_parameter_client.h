// A server across the network.
#ifndef SHOAL_WORKER_CLIENT_GRPC_PARAMETER_CLIENT_H_
#define SHOAL_WORKER_CLIENT_GRPC_PARAMETER_CLIENT_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/buffer_pool.h"
#include "worker/client/parameter_client.h"

namespace shoal {

// A few messages for each of a few servers.
inline constexpr uint64_t kIdleBufferBytes = uint64_t{64} << 20;

// How calls are cut into messages.
struct MessageLimits {
  // A message is about this large: enough to make the costs of a call small, and the next one need not wait long.
  uint64_t part_bytes = uint64_t{1} << 20;
  // One partition's gradients go whole in a message up to this; more is staged at the server, part_bytes at a time.
  uint64_t whole_push_bytes = uint64_t{4} << 20;
  size_t parts_at_once = 4;  // of one call
};

// Thread-safe. A server that cannot be reached answers UNAVAILABLE at once; the connection comes back by itself. Pulls
// need `dims` in their groups and `dense_floats` in the reply, pushes need `dims`: what is missing is INVALID_ARGUMENT.
// Large calls travel in several messages, each of which has the call's timeout from when it is sent. Clients of one
// address share connections.
class GrpcParameterClient : public ParameterClient {
 public:
  // Does not connect yet: the first call does. INVALID_ARGUMENT when `address` is not host:port. `buffers`: memory for
  // messages, best shared by all clients of a process; null: one of its own, of kIdleBufferBytes.
  static absl::StatusOr<std::unique_ptr<GrpcParameterClient>> Create(const std::string& address,
                                                                     const MessageLimits& limits = {},
                                                                     std::shared_ptr<BufferPool> buffers = nullptr);
  // Cancels the calls in flight and waits for their callbacks. REQUIRES: not called from a callback.
  ~GrpcParameterClient() override;

  void OpenSplit(const OpenSplitRequest* request, absl::Duration timeout, OpenSplitReply* reply, Done done) override;
  void Pull(const PullRequest* request, absl::Duration timeout, PullReply* reply, Done done) override;
  void Push(const PushRequest* request, absl::Duration timeout, PushReply* reply, Done done) override;
  void Mark(const MarkRequest* request, absl::Duration timeout, MarkReply* reply, Done done) override;
  void Abort(Calls calls) override;

 private:
  class Impl;
  struct StageId {
    uint64_t attempt;
    uint64_t part;
  };
  GrpcParameterClient(std::unique_ptr<Impl> impl, const MessageLimits& limits);
  // A push in pieces, of which the server makes one again.
  void Stage(const PushRequest& request, StageId id, absl::Duration timeout, PushReply* reply, Done done);

  const MessageLimits limits_;
  const std::unique_ptr<Impl> impl_;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_CLIENT_GRPC_PARAMETER_CLIENT_H_
