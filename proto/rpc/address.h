// host:port addresses: what they mean and whether one can be bound. Free of gRPC.
#ifndef SHOAL_PROTO_RPC_ADDRESS_H_
#define SHOAL_PROTO_RPC_ADDRESS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace shoal {

struct Address {
  std::string host;   // without brackets; may be empty (any address)
  uint16_t port = 0;  // 0: any free one
};

// "host:port" or "[ipv6]:port". INVALID_ARGUMENT names what is wrong.
absl::StatusOr<Address> ParseAddress(absl::string_view text);
// The inverse, with brackets where needed.
std::string FormatAddress(const Address& address);

// Whether host:port can only be reached from this machine: localhost, 127.0.0.0/8 or ::1. Other names count as
// reachable, whatever they resolve to.
bool IsLoopback(absl::string_view host_port);

// FAILED_PRECONDITION for a bind address that others can reach, unless `insecure` accepts that.
absl::Status CheckBindAllowed(absl::string_view host_port, bool insecure);

// Tries to bind and lets go again: UNAVAILABLE with the system's reason when it does not work. What gRPC does not tell.
absl::Status ProbeBind(const Address& address);

}  // namespace shoal

#endif  // SHOAL_PROTO_RPC_ADDRESS_H_
