// Puts a ParameterServer on the network, for lanes and for other servers.
#ifndef SHOAL_SERVER_RPC_PARAMETER_SERVICE_H_
#define SHOAL_SERVER_RPC_PARAMETER_SERVICE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/rpc/grpc_server.h"
#include "server/parameter_server.h"

namespace shoal {

class ReplicationGrpcService;

// Thread-safe. Handlers never block; a parked pull holds its memory and no thread.
class ParameterGrpcServer {
 public:
  // `server` outlives this. Errors: as GrpcServer::Start.
  static absl::StatusOr<std::unique_ptr<ParameterGrpcServer>> Start(ParameterServer* server,
                                                                    const GrpcServerOptions& options);
  ~ParameterGrpcServer();  // Shutdown without grace

  // The host of the options with the real port.
  const std::string& address() const;
  // Gives calls in flight `grace`, then answers them (parked pulls) with UNAVAILABLE. New calls get that, too.
  void Shutdown(absl::Duration grace);

 private:
  class Service;
  ParameterGrpcServer(std::unique_ptr<Service> service, std::unique_ptr<ReplicationGrpcService> replication,
                      std::unique_ptr<GrpcServer> grpc);

  const std::unique_ptr<Service> service_;
  const std::unique_ptr<ReplicationGrpcService> replication_;
  const std::unique_ptr<GrpcServer> grpc_;  // after the services, which it calls
};

}  // namespace shoal

#endif  // SHOAL_SERVER_RPC_PARAMETER_SERVICE_H_
