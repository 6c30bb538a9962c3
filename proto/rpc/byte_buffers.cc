#include "proto/rpc/byte_buffers.h"

#include <grpcpp/support/proto_buffer_reader.h>
#include <grpcpp/support/slice.h>

#include <new>
#include <utility>

namespace shoal {
namespace {

grpc::Slice ToSlice(ByteArray bytes) {
  const size_t size = bytes.size();
  if (size == 0) return grpc::Slice();
  return grpc::Slice(bytes.Release(), size, ByteArray::Free);
}

template <typename Visit>
void ForEachPiece(const grpc::ByteBuffer& buffer, Visit visit) {
  // It only reads, where the pieces lie: ByteBuffer::Dump would count a reference to each.
  grpc::ProtoBufferReader reader(const_cast<grpc::ByteBuffer*>(&buffer));
  const void* data = nullptr;
  for (int size = 0; reader.Next(&data, &size);) {
    visit(absl::string_view(static_cast<const char*>(data), static_cast<size_t>(size)));
  }
}

}  // namespace

grpc::ByteBuffer ToByteBuffer(ByteArray bytes) {
  const grpc::Slice slice = ToSlice(std::move(bytes));
  return grpc::ByteBuffer(&slice, 1);
}

grpc::ByteBuffer ToByteBuffer(ByteArray head, ByteArray tail) {
  const grpc::Slice slices[2] = {ToSlice(std::move(head)), ToSlice(std::move(tail))};
  return grpc::ByteBuffer(slices, 2);
}

ReceivedBytes::ReceivedBytes(const grpc::ByteBuffer& buffer, BufferPool* pool) {
  if (!buffer.Valid()) return;  // never received: reads as an empty message
  size_t pieces = 0;
  ForEachPiece(buffer, [&](absl::string_view) { ++pieces; });
  memory_ = ByteArray(pieces * sizeof(absl::string_view), pool);
  auto* const chunks = reinterpret_cast<absl::string_view*>(memory_.data());
  size_t next = 0;
  ForEachPiece(buffer, [&](absl::string_view piece) { new (chunks + next++) absl::string_view(piece); });
  chunks_ = absl::MakeConstSpan(chunks, pieces);
}

}  // namespace shoal
