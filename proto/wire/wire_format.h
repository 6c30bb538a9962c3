// The protobuf wire format, written and read by hand: for bulk messages whose arrays must be copied exactly once.
#ifndef SHOAL_PROTO_WIRE_WIRE_FORMAT_H_
#define SHOAL_PROTO_WIRE_WIRE_FORMAT_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace shoal {

// A message as it arrived: its bytes, in order, cut anywhere.
using Chunks = absl::Span<const absl::string_view>;

inline constexpr uint32_t kVarintType = 0;
inline constexpr uint32_t kBytesType = 2;

// Writes fields to memory that is large enough, or only counts bytes when there is none: the same code sizes a message
// and writes it. Fields with default values are left out, as proto3 does. Not thread-safe.
class WireWriter {
 public:
  explicit WireWriter(uint8_t* out) : out_(out) {}

  void Varint(uint32_t field, uint64_t value);
  void Bytes(uint32_t field, const void* data, size_t size);
  // Tag and length of a bytes field or message (also an empty one); the caller lets `size` bytes follow.
  void BytesHead(uint32_t field, size_t size);
  void Raw(const void* data, size_t size);
  // Where the next `size` bytes are to be written by the caller; null when bytes are only counted.
  uint8_t* Claim(size_t size);
  template <typename T>
  void Array(uint32_t field, absl::Span<const T> values) {
    Bytes(field, values.data(), values.size() * sizeof(T));
  }
  // Bytes so far.
  size_t size() const { return size_; }

 private:
  void RawVarint(uint64_t value);

  uint8_t* out_;
  size_t size_ = 0;
};

// Reads fields of a message in chunks. Every read is checked against the end of the message. Not thread-safe; the
// chunks must outlive it.
class WireReader {
 public:
  explicit WireReader(Chunks chunks);

  bool AtEnd() const { return position_ == end_; }
  size_t remaining() const { return end_ - position_; }

  // INVALID_ARGUMENT on truncation, on a tag without field number and on deprecated groups.
  absl::Status ReadTag(uint32_t* field, uint32_t* type);
  absl::Status ReadVarint(uint64_t* value);
  // Length of a bytes field; at most remaining().
  absl::Status ReadLength(size_t* size);
  absl::Status SkipField(uint32_t type);
  // REQUIRES: size <= remaining().
  void CopyTo(void* to, size_t size);
  void Skip(size_t size);

  // Narrows the reader to the next `size` bytes; Leave takes what Enter returned. REQUIRES: size <= remaining().
  size_t Enter(size_t size);
  void Leave(size_t outer_end) { end_ = outer_end; }

 private:
  Chunks chunks_;
  size_t chunk_ = 0;     // the chunk that holds the next byte ...
  size_t offset_ = 0;    // ... and where in it
  size_t position_ = 0;  // in the message
  size_t end_ = 0;
};

}  // namespace shoal

#endif  // SHOAL_PROTO_WIRE_WIRE_FORMAT_H_
