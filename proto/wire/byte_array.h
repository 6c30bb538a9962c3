// Bytes that are about to be overwritten: unlike a std::vector they are not zeroed first, which for a bulk message
// would cost as much as writing it.
#ifndef SHOAL_PROTO_WIRE_BYTE_ARRAY_H_
#define SHOAL_PROTO_WIRE_BYTE_ARRAY_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "base/buffer_pool.h"

namespace shoal {

// Owns `size` uninitialised bytes at an address that suits every element type and whole cache lines. Move-only.
class ByteArray {
 public:
  static constexpr size_t kAlignment = BufferPool::kAlignment;

  ByteArray() = default;
  // The bytes come from `pool` and go back to it; null: from operator new.
  explicit ByteArray(size_t size, BufferPool* pool = nullptr)
      : data_(size == 0 ? nullptr : static_cast<uint8_t*>(BufferPool::Take(size, pool))), size_(size) {}
  ByteArray(ByteArray&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  ByteArray& operator=(ByteArray&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~ByteArray() { Free(data_); }

  uint8_t* data() { return data_; }
  const uint8_t* data() const { return data_; }
  size_t size() const { return size_; }

  // Hands the memory over; free it with Free.
  uint8_t* Release() {
    size_ = 0;
    return std::exchange(data_, nullptr);
  }
  static void Free(void* data) { BufferPool::Give(data); }

 private:
  uint8_t* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace shoal

#endif  // SHOAL_PROTO_WIRE_BYTE_ARRAY_H_
