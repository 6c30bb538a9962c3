#include "proto/rpc/grpc_server.h"

#include <grpcpp/security/server_credentials.h>
#include <grpcpp/server_builder.h>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "proto/rpc/address.h"
#include "proto/rpc/rpc_options.h"

namespace shoal {

absl::StatusOr<std::unique_ptr<GrpcServer>> GrpcServer::Start(const GrpcServerOptions& options,
                                                              const std::vector<grpc::Service*>& services) {
  SHOAL_RETURN_IF_ERROR(CheckBindAllowed(options.address, options.insecure));
  SHOAL_ASSIGN_OR_RETURN(Address address, ParseAddress(options.address));
  SHOAL_RETURN_IF_ERROR(ProbeBind(address));
  if (address.host.empty()) address.host = "0.0.0.0";
  grpc::ServerBuilder builder;
  ConfigureServer(&builder);
  int port = 0;
  builder.AddListeningPort(FormatAddress(address), grpc::InsecureServerCredentials(), &port);
  for (grpc::Service* service : services) builder.RegisterService(service);
  std::unique_ptr<grpc::Server> server = builder.BuildAndStart();
  if (server == nullptr || port <= 0) {
    return absl::UnavailableError(
        absl::StrCat("cannot bind ", FormatAddress(address), ": taken by another process just now"));
  }
  address.port = static_cast<uint16_t>(port);
  return std::unique_ptr<GrpcServer>(new GrpcServer(FormatAddress(address), std::move(server)));
}

void GrpcServer::Shutdown(absl::Duration grace) { server_->Shutdown(DeadlineAfter(grace)); }

}  // namespace shoal
