#include "proto/wire/codec_internal.h"
#include "proto/wire/parameter_codec.h"

namespace shoal {
namespace {

using codec_internal::Field;
using codec_internal::ReadFields;
using codec_internal::ReadMessage;

constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();

absl::Status CheckGroup(const PushGroup& group, size_t partitions) {
  SHOAL_RETURN_IF_ERROR(codec_internal::CheckCounts("PushRequest.groups", group.counts, partitions, group.keys.size()));
  if (!group.occurrences.empty() && group.occurrences.size() != group.keys.size()) {
    return absl::InvalidArgumentError(absl::StrCat("PushRequest.groups.occurrences: ", group.occurrences.size(),
                                                   " elements, must be 0 or ", group.keys.size(), " as in keys"));
  }
  if (!group.slots.empty() && group.slots.size() != group.keys.size()) {
    return absl::InvalidArgumentError(absl::StrCat("PushRequest.groups.slots: ", group.slots.size(),
                                                   " elements, must be 0 or ", group.keys.size(), " as in keys"));
  }
  if (group.dims.size() != group.tables.size()) {
    return absl::InvalidArgumentError(absl::StrCat("PushRequest.groups.dims: ", group.dims.size(),
                                                   " elements, must be ", group.tables.size(), " as in tables"));
  }
  return absl::OkStatus();
}

absl::Status CheckRequest(const PushRequest& request) {
  if (request.begin > request.end) {
    return absl::InvalidArgumentError(
        absl::StrCat("PushRequest.begin: ", request.begin, ", must be at most end, which is ", request.end));
  }
  SHOAL_RETURN_IF_ERROR(codec_internal::CheckPartitions("PushRequest", request.partitions));
  for (const PushGroup& group : request.groups) {
    SHOAL_RETURN_IF_ERROR(CheckGroup(group, request.partitions.size()));
  }
  return absl::OkStatus();
}

absl::Status CheckGradients(const PushRequest& request) {
  if (!request.tensors.empty()) {
    return absl::InvalidArgumentError("PushRequest.tensors: whole tensors are not sent, dense gradients must be");
  }
  for (const PushGroup& group : request.groups) {
    if (group.gradients.size() != group.tables.size()) {
      return absl::InvalidArgumentError(absl::StrCat("PushRequest.groups.gradients: ", group.gradients.size(),
                                                     ", must be ", group.tables.size(), " as in tables"));
    }
    for (const float* gradients : group.gradients) {
      if (gradients == nullptr && !group.keys.empty()) {
        return absl::InvalidArgumentError("PushRequest.groups.gradients: null, must be set when there are keys");
      }
    }
  }
  return absl::OkStatus();
}

void WriteGroup(const PushGroup& group, WireWriter* w) {
  w->Array(1, group.tables);
  w->Array(2, group.dims);
  w->Array(3, group.counts);
  w->Array(4, group.occurrences);
  w->Array(5, group.keys);
  w->Varint(6, group.slot);
  w->Array(7, group.slots);
}

void WriteValues(ValueType type, const float* values, uint64_t n, WireWriter* w) {
  uint8_t* const to = w->Claim(n * ValueBytes(type));
  if (to != nullptr) EncodeValues(type, values, n, to);
}

void WriteRequest(const PushRequest& request, WireWriter* w) {
  codec_internal::WriteHeader(1, request.header, w);
  w->Varint(2, request.pass);
  w->Varint(3, request.split);
  w->Varint(4, request.lease);
  w->Varint(5, request.begin);
  w->Varint(6, request.end);
  w->Varint(7, request.end_of_split);
  w->Varint(8, request.examples);
  w->Varint(9, request.logical_lane);
  w->Varint(10, request.round);
  w->Varint(11, static_cast<uint64_t>(request.value_type));
  w->Varint(12, request.dense.size());
  w->Array(13, request.partitions);
  uint64_t floats = request.dense.size();
  for (const PushGroup& group : request.groups) {
    WireWriter counter(nullptr);
    WriteGroup(group, &counter);
    w->BytesHead(14, counter.size());
    WriteGroup(group, w);
    for (uint32_t dim : group.dims) floats += group.keys.size() * dim;
  }
  if (floats > 0) {
    w->BytesHead(15, floats * ValueBytes(request.value_type));
    for (const PushGroup& group : request.groups) {
      for (size_t t = 0; t < group.dims.size(); ++t) {
        WriteValues(request.value_type, group.gradients[t], group.keys.size() * group.dims[t], w);
      }
    }
    WriteValues(request.value_type, request.dense.data(), request.dense.size(), w);
  }
  w->Varint(16, request.continues);
}

absl::Status ReadGroup(const Field& field, OwnedPushRequest* owned) {
  if (owned->request.groups.size() >= kMaxGroups) {
    return absl::InvalidArgumentError(absl::StrCat("groups: more than ", kMaxGroups));
  }
  PushGroup group;
  SHOAL_RETURN_IF_ERROR(ReadMessage("groups", field, [&](const Field& f) {
    switch (f.number) {
      case 1:
        return f.Array("groups.tables", kMaxTablesPerGroup, &owned->storage, &group.tables);
      case 2:
        return f.Array("groups.dims", kMaxTablesPerGroup, &owned->storage, &group.dims);
      case 3:
        return f.Array("groups.counts", kMaxPartitions, &owned->storage, &group.counts);
      case 4:
        return f.Array("groups.occurrences", kNoLimit, &owned->storage, &group.occurrences);
      case 5:
        return f.Array("groups.keys", kNoLimit, &owned->storage, &group.keys);
      case 6:
        return f.U16("groups.slot", &group.slot);
      case 7:
        return f.Array("groups.slots", kNoLimit, &owned->storage, &group.slots);
      default:
        return f.reader->SkipField(f.type);
    }
  }));
  owned->request.groups.push_back(group);
  return absl::OkStatus();
}

// The values of a request as floats, in memory that is added to `storage`. Their type may have come after them.
absl::Status DecodeRequestValues(ValueType type, ByteArray bytes, BufferPool* pool, std::vector<ByteArray>* storage,
                                 absl::Span<const float>* values) {
  const size_t n = bytes.size() / ValueBytes(type);
  if (bytes.size() % ValueBytes(type) != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("values: ", bytes.size(), " bytes, must be a multiple of ", ValueBytes(type)));
  }
  if (type != ValueType::kF32) {
    ByteArray floats(n * sizeof(float), pool);
    DecodeValues(type, bytes.data(), n, reinterpret_cast<float*>(floats.data()));
    bytes = std::move(floats);
  }
  *values = absl::MakeConstSpan(reinterpret_cast<const float*>(bytes.data()), n);
  storage->push_back(std::move(bytes));
  return absl::OkStatus();
}

// Cuts `values` into the groups' gradients and the dense ones.
absl::Status AssignValues(absl::Span<const float> values, uint64_t dense_floats, OwnedPushRequest* owned) {
  uint64_t used = 0;
  for (PushGroup& group : owned->request.groups) {
    for (uint32_t dim : group.dims) {
      // keys < 2^61 (they were in memory) and dim < 2^32: compared by division, so that no product overflows.
      if (dim != 0 && group.keys.size() > (values.size() - used) / dim) {
        return absl::InvalidArgumentError(absl::StrCat("PushRequest.values: ", values.size(), " floats, fewer than ",
                                                       used, " + ", group.keys.size(), " keys x dim ", dim));
      }
      group.gradients.push_back(values.data() + used);
      used += group.keys.size() * dim;
    }
  }
  if (dense_floats != values.size() - used) {
    return absl::InvalidArgumentError(absl::StrCat("PushRequest.values: ", values.size(), " floats, must be ", used,
                                                   " for rows and ", dense_floats, " as in dense_floats"));
  }
  owned->request.dense = values.subspan(used);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ByteArray> EncodePushRequest(const PushRequest& request, uint64_t max_bytes, BufferPool* pool) {
  SHOAL_RETURN_IF_ERROR(CheckRequest(request));
  SHOAL_RETURN_IF_ERROR(CheckGradients(request));
  return codec_internal::WriteMessage("PushRequest", max_bytes, pool, [&](WireWriter* w) { WriteRequest(request, w); });
}

absl::StatusOr<OwnedPushRequest> DecodePushRequest(Chunks message, BufferPool* pool) {
  OwnedPushRequest owned;
  PushRequest& r = owned.request;
  ByteArray bytes;
  absl::Span<const float> values;
  uint64_t dense_floats = 0;
  WireReader reader(message);
  SHOAL_RETURN_IF_ERROR(ReadFields(&reader, pool, [&](const Field& f) {
    switch (f.number) {
      case 1:
        return codec_internal::ReadHeader(f, &r.header);
      case 2:
        return f.U64("pass", &r.pass);
      case 3:
        return f.U64("split", &r.split);
      case 4:
        return f.U64("lease", &r.lease);
      case 5:
        return f.U64("begin", &r.begin);
      case 6:
        return f.U64("end", &r.end);
      case 7:
        return f.Bool("end_of_split", &r.end_of_split);
      case 8:
        return f.U64("examples", &r.examples);
      case 9:
        return f.U32("logical_lane", &r.logical_lane);
      case 10:
        return f.U64("round", &r.round);
      case 11:
        return f.Values("value_type", &r.value_type);
      case 12:
        return f.U64("dense_floats", &dense_floats);
      case 13:
        return f.Array("partitions", kMaxPartitions, &owned.storage, &r.partitions);
      case 14:
        return ReadGroup(f, &owned);
      case 15:
        return f.ReadArray("values", 1, kNoLimit, &bytes);
      case 16:
        return f.Bool("continues", &r.continues);
      default:
        return reader.SkipField(f.type);
    }
  }));
  SHOAL_RETURN_IF_ERROR(CheckRequest(r));
  SHOAL_RETURN_IF_ERROR(DecodeRequestValues(r.value_type, std::move(bytes), pool, &owned.storage, &values));
  SHOAL_RETURN_IF_ERROR(AssignValues(values, dense_floats, &owned));
  return owned;
}

absl::StatusOr<ByteArray> EncodePushPiece(const PushPiece& piece, uint64_t max_bytes, BufferPool* pool) {
  return codec_internal::WriteMessage("PushPiece", max_bytes, pool, [&](WireWriter* w) {
    codec_internal::WriteHeader(1, piece.header, w);
    w->Varint(2, piece.attempt);
    w->Varint(3, piece.part);
    w->Varint(4, piece.total_bytes);
    w->Varint(5, piece.offset);
    w->Array(6, piece.bytes);
  });
}

absl::StatusOr<OwnedPushPiece> DecodePushPiece(Chunks message, BufferPool* pool) {
  OwnedPushPiece owned;
  PushPiece& p = owned.piece;
  WireReader reader(message);
  SHOAL_RETURN_IF_ERROR(ReadFields(&reader, pool, [&](const Field& f) {
    switch (f.number) {
      case 1:
        return codec_internal::ReadHeader(f, &p.header);
      case 2:
        return f.U64("attempt", &p.attempt);
      case 3:
        return f.U64("part", &p.part);
      case 4:
        return f.U64("total_bytes", &p.total_bytes);
      case 5:
        return f.U64("offset", &p.offset);
      case 6:
        return f.ReadArray("bytes", 1, kNoLimit, &owned.storage);
      default:
        return reader.SkipField(f.type);
    }
  }));
  p.bytes = absl::MakeConstSpan(owned.storage.data(), owned.storage.size());
  return owned;
}

}  // namespace shoal
