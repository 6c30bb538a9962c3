#include "proto/wire/codec_internal.h"

#include <algorithm>

namespace shoal::codec_internal {

absl::Status Field::Expect(absl::string_view name, uint32_t expected_type) const {
  if (type == expected_type) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, ": wire type ", type, ", must be ", expected_type));
}

absl::Status Field::Varint(absl::string_view name, uint64_t max, uint64_t* value) const {
  SHOAL_RETURN_IF_ERROR(Expect(name, kVarintType));
  SHOAL_RETURN_IF_ERROR(reader->ReadVarint(value));
  if (*value <= max) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(name, ": ", *value, ", must be at most ", max));
}

absl::Status Field::U16(absl::string_view name, uint16_t* value) const {
  uint64_t wide = 0;
  SHOAL_RETURN_IF_ERROR(Varint(name, std::numeric_limits<uint16_t>::max(), &wide));
  *value = static_cast<uint16_t>(wide);
  return absl::OkStatus();
}

absl::Status Field::U32(absl::string_view name, uint32_t* value) const {
  uint64_t wide = 0;
  SHOAL_RETURN_IF_ERROR(Varint(name, std::numeric_limits<uint32_t>::max(), &wide));
  *value = static_cast<uint32_t>(wide);
  return absl::OkStatus();
}

absl::Status Field::U64(absl::string_view name, uint64_t* value) const {
  return Varint(name, std::numeric_limits<uint64_t>::max(), value);
}

absl::Status Field::Bool(absl::string_view name, bool* value) const {
  uint64_t wide = 0;
  SHOAL_RETURN_IF_ERROR(Varint(name, 1, &wide));
  *value = wide != 0;
  return absl::OkStatus();
}

absl::Status Field::Values(absl::string_view name, ValueType* type) const {
  uint64_t wide = 0;
  SHOAL_RETURN_IF_ERROR(Varint(name, static_cast<uint64_t>(ValueType::kF16), &wide));
  *type = static_cast<ValueType>(wide);
  return absl::OkStatus();
}

absl::Status Field::ReadArray(absl::string_view name, size_t element_bytes, uint64_t max_count,
                              ByteArray* bytes) const {
  SHOAL_RETURN_IF_ERROR(Expect(name, kBytesType));
  size_t size = 0;
  SHOAL_RETURN_IF_ERROR(reader->ReadLength(&size));
  if (size % element_bytes != 0) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": ", size, " bytes, must be a multiple of ", element_bytes));
  }
  if (size / element_bytes > max_count) {
    return absl::InvalidArgumentError(
        absl::StrCat(name, ": ", size / element_bytes, " elements, must be at most ", max_count));
  }
  *bytes = ByteArray(size, pool);
  reader->CopyTo(bytes->data(), size);
  return absl::OkStatus();
}

absl::Status ReadHeader(const Field& field, RequestHeader* header) {
  return ReadMessage("header", field, [&](const Field& f) {
    switch (f.number) {
      case 1:
        return f.U64("header.job", &header->job);
      case 2:
        return f.U64("header.run", &header->run);
      case 3:
        return f.U64("header.map_version", &header->map_version);
      case 4:
        return f.U64("header.lane", &header->lane);
      default:
        return f.reader->SkipField(f.type);
    }
  });
}

void WriteHeader(uint32_t number, const RequestHeader& header, WireWriter* writer) {
  const auto write = [&](WireWriter* w) {
    w->Varint(1, header.job);
    w->Varint(2, header.run);
    w->Varint(3, header.map_version);
    w->Varint(4, header.lane);
  };
  WireWriter counter(nullptr);
  write(&counter);
  writer->BytesHead(number, counter.size());
  write(writer);
}

void CopyValues(ValueType type, WireReader* reader, uint64_t n, float* to) {
  if (type == ValueType::kF32) return reader->CopyTo(to, n * sizeof(float));
  constexpr uint64_t kBlock = 2048;
  uint8_t bytes[kBlock * sizeof(uint16_t)];
  for (; n > 0;) {
    const uint64_t some = std::min(n, kBlock);
    reader->CopyTo(bytes, some * ValueBytes(type));
    DecodeValues(type, bytes, some, to);
    to += some;
    n -= some;
  }
}

absl::Status CheckPartitions(absl::string_view message, absl::Span<const uint32_t> partitions) {
  for (size_t i = 1; i < partitions.size(); ++i) {
    if (partitions[i] <= partitions[i - 1]) {
      return absl::InvalidArgumentError(
          absl::StrCat(message, ".partitions: ", partitions[i], " follows ", partitions[i - 1], ", must be ascending"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckCounts(absl::string_view message, absl::Span<const uint32_t> counts, size_t partitions, size_t keys) {
  if (counts.size() != partitions) {
    return absl::InvalidArgumentError(
        absl::StrCat(message, ".counts: ", counts.size(), " elements, must be ", partitions, " as in partitions"));
  }
  uint64_t sum = 0;  // of fewer than 2^32 numbers below 2^32: no overflow
  for (uint32_t count : counts) sum += count;
  if (sum != keys) {
    return absl::InvalidArgumentError(absl::StrCat(message, ".counts: sum ", sum, ", must be ", keys, " as in keys"));
  }
  return absl::OkStatus();
}

}  // namespace shoal::codec_internal
