// absl::Status <-> grpc::Status: the same codes and message.
#ifndef SHOAL_PROTO_RPC_STATUS_CONVERT_H_
#define SHOAL_PROTO_RPC_STATUS_CONVERT_H_

#include <grpcpp/support/status.h>

#include "absl/status/status.h"

namespace shoal {

grpc::Status ToGrpc(const absl::Status& status);
// A code that gRPC does not define becomes UNKNOWN.
absl::Status FromGrpc(const grpc::Status& status);
// What a caller makes of a call that it did not cancel itself. A server that ends cancels what it has not answered:
// that is UNAVAILABLE to the caller, who asks again and then hears what there is to know.
absl::Status FromServer(const grpc::Status& status);

}  // namespace shoal

#endif  // SHOAL_PROTO_RPC_STATUS_CONVERT_H_
