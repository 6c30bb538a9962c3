#include "server/rpc/replication_service.h"

#include "proto/rpc/status_convert.h"

namespace shoal {

grpc::ServerUnaryReactor* ReplicationGrpcService::Replicate(grpc::CallbackServerContext* context,
                                                            const ReplicaRequest* request, ReplicaReply* reply) {
  absl::StatusOr<ReplicaReply> done = server_.Replicate(*request);
  if (done.ok()) *reply = *std::move(done);
  grpc::ServerUnaryReactor* const reactor = context->DefaultReactor();
  reactor->Finish(ToGrpc(done.status()));
  return reactor;
}

}  // namespace shoal
