// Puts flat bytes into gRPC's buffers and takes them out, without copying.
#ifndef SHOAL_PROTO_RPC_BYTE_BUFFERS_H_
#define SHOAL_PROTO_RPC_BYTE_BUFFERS_H_

#include <grpcpp/support/byte_buffer.h>

#include "absl/strings/string_view.h"
#include "proto/wire/byte_array.h"
#include "proto/wire/wire_format.h"

namespace shoal {

// A message made of `bytes`, which gRPC owns from now on.
grpc::ByteBuffer ToByteBuffer(ByteArray bytes);
// A message made of a head and what follows it.
grpc::ByteBuffer ToByteBuffer(ByteArray head, ByteArray tail);

// Where the bytes of a received message lie. The buffer must outlive it, unchanged.
// `pool`, which may be null, is for the list of places: a large message comes in hundreds of pieces.
class ReceivedBytes {
 public:
  explicit ReceivedBytes(const grpc::ByteBuffer& buffer, BufferPool* pool = nullptr);
  ReceivedBytes(const ReceivedBytes&) = delete;
  ReceivedBytes& operator=(const ReceivedBytes&) = delete;

  Chunks chunks() const { return chunks_; }

 private:
  ByteArray memory_;
  Chunks chunks_;
};

}  // namespace shoal

#endif  // SHOAL_PROTO_RPC_BYTE_BUFFERS_H_
