// Puts flat bytes into gRPC's buffers and takes them out, without copying.
#ifndef SHOAL_PROTO_RPC_BYTE_BUFFERS_H_
#define SHOAL_PROTO_RPC_BYTE_BUFFERS_H_

#include <grpcpp/support/byte_buffer.h>
#include <grpcpp/support/slice.h>

#include <vector>

#include "absl/strings/string_view.h"
#include "proto/wire/byte_array.h"
#include "proto/wire/wire_format.h"

namespace shoal {

// A message made of `bytes`, which gRPC owns from now on.
grpc::ByteBuffer ToByteBuffer(ByteArray bytes);
// A message made of a head and what follows it.
grpc::ByteBuffer ToByteBuffer(ByteArray head, ByteArray tail);

// The bytes of a received message; keeps a reference to them. Not copyable: chunks() points into it.
class ReceivedBytes {
 public:
  explicit ReceivedBytes(const grpc::ByteBuffer& buffer);
  ReceivedBytes(const ReceivedBytes&) = delete;
  ReceivedBytes& operator=(const ReceivedBytes&) = delete;

  Chunks chunks() const { return chunks_; }

 private:
  std::vector<grpc::Slice> slices_;
  std::vector<absl::string_view> chunks_;
};

}  // namespace shoal

#endif  // SHOAL_PROTO_RPC_BYTE_BUFFERS_H_
