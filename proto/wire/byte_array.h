// Bytes that are about to be overwritten: unlike a std::vector they are not zeroed first, which for a bulk message
// would cost as much as writing it.
#ifndef SHOAL_PROTO_WIRE_BYTE_ARRAY_H_
#define SHOAL_PROTO_WIRE_BYTE_ARRAY_H_

#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>

namespace shoal {

// Owns `size` uninitialised bytes at an address that suits every element type and whole cache lines. Move-only.
class ByteArray {
 public:
  static constexpr size_t kAlignment = 64;

  ByteArray() = default;
  explicit ByteArray(size_t size)
      : data_(size == 0 ? nullptr : static_cast<uint8_t*>(::operator new (size, std::align_val_t{kAlignment}))),
        size_(size) {}
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
  static void Free(void* data) { ::operator delete (data, std::align_val_t{kAlignment}); }

 private:
  uint8_t* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace shoal

#endif  // SHOAL_PROTO_WIRE_BYTE_ARRAY_H_
