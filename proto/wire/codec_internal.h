// What the files of the parameter codec share; included by nobody else.
#ifndef SHOAL_PROTO_WIRE_CODEC_INTERNAL_H_
#define SHOAL_PROTO_WIRE_CODEC_INTERNAL_H_

#include <cstdint>
#include <limits>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "proto/wire/byte_array.h"
#include "proto/wire/parameter_messages.h"
#include "proto/wire/value_codec.h"
#include "proto/wire/wire_format.h"

namespace shoal::codec_internal {

// One field of a message that is being read.
struct Field {
  WireReader* reader;
  BufferPool* pool;  // for arrays; may be null
  uint32_t number;
  uint32_t type;

  absl::Status Expect(absl::string_view name, uint32_t expected_type) const;
  absl::Status Varint(absl::string_view name, uint64_t max, uint64_t* value) const;
  absl::Status U16(absl::string_view name, uint16_t* value) const;
  absl::Status U32(absl::string_view name, uint32_t* value) const;
  absl::Status U64(absl::string_view name, uint64_t* value) const;
  absl::Status Bool(absl::string_view name, bool* value) const;
  absl::Status Values(absl::string_view name, ValueType* type) const;

  // An array of at most max_count elements, copied to aligned memory that is added to `storage`.
  template <typename T>
  absl::Status Array(absl::string_view name, uint64_t max_count, std::vector<ByteArray>* storage,
                     absl::Span<const T>* values) const {
    ByteArray bytes;
    SHOAL_RETURN_IF_ERROR(ReadArray(name, sizeof(T), max_count, &bytes));
    *values = absl::MakeConstSpan(reinterpret_cast<const T*>(bytes.data()), bytes.size() / sizeof(T));
    storage->push_back(std::move(bytes));
    return absl::OkStatus();
  }
  absl::Status ReadArray(absl::string_view name, size_t element_bytes, uint64_t max_count, ByteArray* bytes) const;
};

// Calls visit(const Field&) for each field up to the reader's end; it reads the field or skips it.
template <typename Visit>
absl::Status ReadFields(WireReader* reader, BufferPool* pool, Visit visit) {
  while (!reader->AtEnd()) {
    Field field{reader, pool, 0, 0};
    SHOAL_RETURN_IF_ERROR(reader->ReadTag(&field.number, &field.type));
    SHOAL_RETURN_IF_ERROR(visit(field));
  }
  return absl::OkStatus();
}

// Reads an embedded message.
template <typename Visit>
absl::Status ReadMessage(absl::string_view name, const Field& field, Visit visit) {
  SHOAL_RETURN_IF_ERROR(field.Expect(name, kBytesType));
  size_t size = 0;
  SHOAL_RETURN_IF_ERROR(field.reader->ReadLength(&size));
  const size_t outer = field.reader->Enter(size);
  SHOAL_RETURN_IF_ERROR(ReadFields(field.reader, field.pool, visit));
  field.reader->Leave(outer);
  return absl::OkStatus();
}

absl::Status ReadHeader(const Field& field, RequestHeader* header);
void WriteHeader(uint32_t number, const RequestHeader& header, WireWriter* writer);

// Sizes a message with a first run of `write`, checks the size and writes it with a second.
template <typename Write>
absl::StatusOr<ByteArray> WriteMessage(absl::string_view name, uint64_t max_bytes, BufferPool* pool, Write write) {
  WireWriter counter(nullptr);
  write(&counter);
  if (counter.size() > max_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": ", counter.size(), " bytes, must be at most ", max_bytes));
  }
  ByteArray bytes(counter.size(), pool);
  WireWriter writer(bytes.data());
  write(&writer);
  return bytes;
}

// Takes n values out of the reader. REQUIRES: their bytes remain.
void CopyValues(ValueType type, WireReader* reader, uint64_t n, float* to);

absl::Status CheckPartitions(absl::string_view message, absl::Span<const uint32_t> partitions);
// counts: one per partition, with `keys` as their sum.
absl::Status CheckCounts(absl::string_view message, absl::Span<const uint32_t> counts, size_t partitions, size_t keys);

}  // namespace shoal::codec_internal

#endif  // SHOAL_PROTO_WIRE_CODEC_INTERNAL_H_
