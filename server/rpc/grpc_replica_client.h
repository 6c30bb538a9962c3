// Reaches another server's ReplicationService.
#ifndef SHOAL_SERVER_RPC_GRPC_REPLICA_CLIENT_H_
#define SHOAL_SERVER_RPC_GRPC_REPLICA_CLIENT_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "server/replication/replica_client.h"

namespace shoal {

// Thread-safe. Its destructor cancels calls under way, whose callbacks run all the same.
class GrpcReplicaClient : public ReplicaClient {
 public:
  // INVALID_ARGUMENT when `address` is not host:port.
  static absl::StatusOr<std::unique_ptr<GrpcReplicaClient>> Create(const std::string& address);
  ~GrpcReplicaClient() override;

  void Replicate(const ReplicaRequest& request, absl::Duration timeout, Done done) override;

 private:
  class Impl;
  explicit GrpcReplicaClient(std::shared_ptr<Impl> impl) : impl_(std::move(impl)) {}
  const std::shared_ptr<Impl> impl_;
};

}  // namespace shoal

#endif  // SHOAL_SERVER_RPC_GRPC_REPLICA_CLIENT_H_
