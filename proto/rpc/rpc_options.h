// gRPC settings of both ends in one place, so that they cannot disagree.
#ifndef SHOAL_PROTO_RPC_RPC_OPTIONS_H_
#define SHOAL_PROTO_RPC_RPC_OPTIONS_H_

#include <grpc/support/time.h>
#include <grpcpp/channel.h>
#include <grpcpp/server_builder.h>

#include <cstdint>
#include <memory>
#include <string>

#include "absl/time/time.h"

namespace shoal {

// Largest message that either end sends or takes. Clients cut larger pulls and pushes to about a MiB, servers copies of
// partitions to 4 MiB; the rest is room for one very wide row and for what travels beside it.
inline constexpr uint64_t kMaxMessageBytes = uint64_t{16} << 20;
// How much later than asked a call gives up: the server's own answer to a parked call should win.
inline constexpr absl::Duration kDeadlineSlack = absl::Milliseconds(500);

// For ClientContext::set_deadline and the like. On gRPC's steady clock: a wall clock that jumps changes nothing.
gpr_timespec DeadlineAfter(absl::Duration timeout);

// A channel to host:port. Channels with the same number share one connection; different ones never do.
std::shared_ptr<grpc::Channel> MakeChannel(const std::string& address, int number);

// Sets limits and keepalive of a server.
void ConfigureServer(grpc::ServerBuilder* builder);

}  // namespace shoal

#endif  // SHOAL_PROTO_RPC_RPC_OPTIONS_H_
