#include "proto/rpc/byte_buffers.h"

#include <utility>

namespace shoal {
namespace {

grpc::Slice ToSlice(ByteArray bytes) {
  const size_t size = bytes.size();
  if (size == 0) return grpc::Slice();
  return grpc::Slice(bytes.Release(), size, ByteArray::Free);
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

ReceivedBytes::ReceivedBytes(const grpc::ByteBuffer& buffer) {
  // Fails only for an invalid (never received) buffer, which then reads as an empty message.
  if (!buffer.Valid() || !buffer.Dump(&slices_).ok()) slices_.clear();
  chunks_.reserve(slices_.size());
  for (const grpc::Slice& slice : slices_) {
    chunks_.emplace_back(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
}

}  // namespace shoal
