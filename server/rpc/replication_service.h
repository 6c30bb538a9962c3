// The gRPC side of copies between servers.
#ifndef SHOAL_SERVER_RPC_REPLICATION_SERVICE_H_
#define SHOAL_SERVER_RPC_REPLICATION_SERVICE_H_

#include "proto/replication_service.grpc.pb.h"
#include "server/parameter_server.h"

namespace shoal {

// Thread-safe. A call is answered before its handler returns: it takes locks and works, but waits for nobody.
class ReplicationGrpcService : public ReplicationService::CallbackService {
 public:
  // `server` outlives this.
  explicit ReplicationGrpcService(ParameterServer* server) : server_(*server) {}

  grpc::ServerUnaryReactor* Replicate(grpc::CallbackServerContext* context, const ReplicaRequest* request,
                                      ReplicaReply* reply) override;

 private:
  ParameterServer& server_;
};

}  // namespace shoal

#endif  // SHOAL_SERVER_RPC_REPLICATION_SERVICE_H_
