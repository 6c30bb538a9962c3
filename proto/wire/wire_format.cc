#include "proto/wire/wire_format.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"

namespace shoal {
namespace {

static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "arrays are copied as they lie in memory: little-endian");

constexpr uint32_t kFixed64Type = 1;
constexpr uint32_t kFixed32Type = 5;

absl::Status Truncated(size_t position, uint64_t wanted, size_t remaining) {
  return absl::InvalidArgumentError(
      absl::StrCat("message: truncated at byte ", position, ": ", wanted, " bytes wanted, ", remaining, " left"));
}

}  // namespace

void WireWriter::RawVarint(uint64_t value) {
  uint8_t bytes[10];
  size_t n = 0;
  while (value >= 0x80) {
    bytes[n++] = static_cast<uint8_t>(value | 0x80);
    value >>= 7;
  }
  bytes[n++] = static_cast<uint8_t>(value);
  Raw(bytes, n);
}

void WireWriter::Raw(const void* data, size_t size) {
  if (out_ != nullptr && size > 0) std::memcpy(out_ + size_, data, size);
  size_ += size;
}

uint8_t* WireWriter::Claim(size_t size) {
  uint8_t* const out = out_ == nullptr ? nullptr : out_ + size_;
  size_ += size;
  return out;
}

void WireWriter::Varint(uint32_t field, uint64_t value) {
  if (value == 0) return;
  RawVarint(uint64_t{field} << 3 | kVarintType);
  RawVarint(value);
}

void WireWriter::BytesHead(uint32_t field, size_t size) {
  RawVarint(uint64_t{field} << 3 | kBytesType);
  RawVarint(size);
}

void WireWriter::Bytes(uint32_t field, const void* data, size_t size) {
  if (size == 0) return;
  BytesHead(field, size);
  Raw(data, size);
}

WireReader::WireReader(Chunks chunks) : chunks_(chunks) {
  for (absl::string_view chunk : chunks) end_ += chunk.size();
}

absl::Status WireReader::ReadVarint(uint64_t* value) {
  uint64_t result = 0;
  for (int shift = 0; shift < 70; shift += 7) {
    if (AtEnd()) return Truncated(position_, 1, 0);
    uint8_t byte;
    CopyTo(&byte, 1);
    // The tenth byte holds the last bit; protobuf drops what is beyond it, too.
    result |= uint64_t{byte & 0x7fu} << shift;
    if (byte < 0x80) {
      *value = result;
      return absl::OkStatus();
    }
  }
  return absl::InvalidArgumentError(
      absl::StrCat("message: varint before byte ", position_, " is longer than 10 bytes"));
}

absl::Status WireReader::ReadTag(uint32_t* field, uint32_t* type) {
  uint64_t tag = 0;
  SHOAL_RETURN_IF_ERROR(ReadVarint(&tag));
  if (tag > std::numeric_limits<uint32_t>::max() || tag >> 3 == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("message: tag ", tag, " before byte ", position_, ", must be a 32-bit number of at least 8"));
  }
  *field = static_cast<uint32_t>(tag >> 3);
  *type = static_cast<uint32_t>(tag & 7);
  return absl::OkStatus();
}

absl::Status WireReader::ReadLength(size_t* size) {
  uint64_t length = 0;
  SHOAL_RETURN_IF_ERROR(ReadVarint(&length));
  if (length > remaining()) return Truncated(position_, length, remaining());
  *size = length;
  return absl::OkStatus();
}

absl::Status WireReader::SkipField(uint32_t type) {
  uint64_t varint = 0;
  size_t size = 0;
  switch (type) {
    case kVarintType:
      return ReadVarint(&varint);
    case kBytesType:
      SHOAL_RETURN_IF_ERROR(ReadLength(&size));
      break;
    case kFixed64Type:
      size = 8;
      break;
    case kFixed32Type:
      size = 4;
      break;
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("message: wire type ", type, " before byte ", position_, ", must be 0, 1, 2 or 5"));
  }
  if (size > remaining()) return Truncated(position_, size, remaining());
  Skip(size);
  return absl::OkStatus();
}

void WireReader::CopyTo(void* to, size_t size) {
  SHOAL_CHECK(size <= remaining());
  auto* out = static_cast<uint8_t*>(to);
  position_ += size;
  while (size > 0) {
    const absl::string_view chunk = chunks_[chunk_];
    const size_t n = std::min(size, chunk.size() - offset_);
    if (n > 0 && out != nullptr) std::memcpy(out, chunk.data() + offset_, n);
    if (out != nullptr) out += n;
    offset_ += n;
    size -= n;
    if (offset_ == chunk.size()) {
      ++chunk_;
      offset_ = 0;
    }
  }
}

void WireReader::Skip(size_t size) { CopyTo(nullptr, size); }

size_t WireReader::Enter(size_t size) {
  SHOAL_CHECK(size <= remaining());
  const size_t outer = end_;
  end_ = position_ + size;
  return outer;
}

}  // namespace shoal
