// The version of the conversation between the scheduler, servers and workers.
#ifndef SHOAL_PROTO_PROTOCOL_VERSION_H_
#define SHOAL_PROTO_PROTOCOL_VERSION_H_

#include <cstdint>

namespace shoal {

// Raised whenever a message changes its meaning; processes of unlike versions are refused at Register.
inline constexpr uint32_t kProtocolVersion = 3;

}  // namespace shoal

#endif  // SHOAL_PROTO_PROTOCOL_VERSION_H_
