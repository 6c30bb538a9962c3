// Pushes whose partitions are too large for one message: pieces that the server puts together.
#ifndef SHOAL_PROTO_WIRE_PUSH_PIECE_H_
#define SHOAL_PROTO_WIRE_PUSH_PIECE_H_

#include <cstdint>

#include "absl/types/span.h"
#include "proto/wire/parameter_messages.h"

namespace shoal {

// A piece of an encoded PushRequest.
struct PushPiece {
  RequestHeader header;
  uint64_t attempt = 0;      // growing by lane: a newer one ends all older ones
  uint64_t part = 0;         // which request of the attempt
  uint64_t total_bytes = 0;  // of the request
  uint64_t offset = 0;       // of `bytes` in it
  absl::Span<const uint8_t> bytes;
};

}  // namespace shoal

#endif  // SHOAL_PROTO_WIRE_PUSH_PIECE_H_
