// Little-endian bytes: appending, and reading with bounds checks.
#ifndef SHOAL_SERVER_CHECKPOINT_BYTE_READER_H_
#define SHOAL_SERVER_CHECKPOINT_BYTE_READER_H_

#include <cstdint>
#include <cstring>
#include <string>

#include "absl/strings/string_view.h"

namespace shoal {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the format is little-endian and written by memcpy");

template <typename T>
void AppendValue(std::string* out, T value) {
  out->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// Reads from a view; after the first read past the end everything fails. Not thread-safe.
class ByteReader {
 public:
  explicit ByteReader(absl::string_view bytes) : bytes_(bytes) {}

  template <typename T>
  bool Read(T* value) {
    if (bytes_.size() < sizeof(T)) return false;
    std::memcpy(value, bytes_.data(), sizeof(T));
    bytes_.remove_prefix(sizeof(T));
    return true;
  }
  // `count` items of `item_bytes`, without overflow.
  bool Has(uint64_t count, uint64_t item_bytes) const { return count <= bytes_.size() / item_bytes; }
  bool Take(uint64_t count, absl::string_view* out) {
    if (bytes_.size() < count) return false;
    *out = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return true;
  }
  uint64_t left() const { return bytes_.size(); }

 private:
  absl::string_view bytes_;
};

}  // namespace shoal

#endif  // SHOAL_SERVER_CHECKPOINT_BYTE_READER_H_
