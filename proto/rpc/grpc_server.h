// A listening gRPC server: binds with the checks and settings that all daemons share.
#ifndef SHOAL_PROTO_RPC_GRPC_SERVER_H_
#define SHOAL_PROTO_RPC_GRPC_SERVER_H_

#include <grpcpp/server.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace shoal {

struct GrpcServerOptions {
  std::string address = "127.0.0.1:0";  // port 0: any free one
  bool insecure = false;                // allows an address that other machines can reach
};

// Thread-safe.
class GrpcServer {
 public:
  // The services outlive the server. FAILED_PRECONDITION: the address needs `insecure`; UNAVAILABLE: cannot be bound,
  // with the system's reason.
  static absl::StatusOr<std::unique_ptr<GrpcServer>> Start(const GrpcServerOptions& options,
                                                           const std::vector<grpc::Service*>& services);
  ~GrpcServer() { Shutdown(absl::ZeroDuration()); }

  // The host of the options with the real port.
  const std::string& address() const { return address_; }
  // Refuses new calls, gives those in flight `grace`, then cancels them. Handlers must finish cancelled calls.
  void Shutdown(absl::Duration grace);

 private:
  GrpcServer(std::string address, std::unique_ptr<grpc::Server> server)
      : address_(std::move(address)), server_(std::move(server)) {}

  const std::string address_;
  const std::unique_ptr<grpc::Server> server_;
};

}  // namespace shoal

#endif  // SHOAL_PROTO_RPC_GRPC_SERVER_H_
