#include <cstring>

#include "proto/wire/codec_internal.h"
#include "proto/wire/parameter_codec.h"

namespace shoal {
namespace {

using codec_internal::Field;
using codec_internal::ReadFields;
using codec_internal::ReadMessage;

constexpr uint64_t kNoLimit = std::numeric_limits<uint64_t>::max();

void WriteGroup(const PullGroup& group, WireWriter* w) {
  w->Array(1, group.tables);
  w->Array(2, group.counts);
  w->Array(3, group.keys);
}

absl::Status ReadGroup(const Field& field, OwnedPullRequest* owned) {
  if (owned->request.groups.size() >= kMaxGroups) {
    return absl::InvalidArgumentError(absl::StrCat("groups: more than ", kMaxGroups));
  }
  PullGroup group;
  SHOAL_RETURN_IF_ERROR(ReadMessage("groups", field, [&](const Field& f) {
    switch (f.number) {
      case 1:
        return f.Array("groups.tables", kMaxTablesPerGroup, &owned->storage, &group.tables);
      case 2:
        return f.Array("groups.counts", kMaxPartitions, &owned->storage, &group.counts);
      case 3:
        return f.Array("groups.keys", kNoLimit, &owned->storage, &group.keys);
      default:
        return f.reader->SkipField(f.type);
    }
  }));
  owned->request.groups.push_back(group);
  return absl::OkStatus();
}

absl::Status CheckRequest(const PullRequest& request) {
  SHOAL_RETURN_IF_ERROR(codec_internal::CheckPartitions("PullRequest", request.partitions));
  for (const PullGroup& group : request.groups) {
    SHOAL_RETURN_IF_ERROR(
        codec_internal::CheckCounts("PullRequest.groups", group.counts, request.partitions.size(), group.keys.size()));
  }
  return absl::OkStatus();
}

// Where the values of a reply go.
struct Destination {
  float* to;
  uint64_t floats;
};

absl::Status Mismatch(absl::string_view name, uint64_t found, uint64_t wanted, absl::string_view where) {
  return absl::InvalidArgumentError(absl::StrCat(name, ": ", found, " elements, must be ", wanted, " as in ", where));
}

// In the order of the reply's sizes.
absl::StatusOr<std::vector<Destination>> DestinationsOf(const PullRequest& request, const PullReply& reply) {
  std::vector<Destination> destinations;
  if (reply.rows.size() != request.groups.size()) {
    return Mismatch("PullReply.rows", reply.rows.size(), request.groups.size(), "PullRequest.groups");
  }
  for (size_t g = 0; g < reply.rows.size(); ++g) {
    const PullGroup& group = request.groups[g];
    if (reply.rows[g].size() != group.tables.size()) {
      return Mismatch("PullReply.rows[]", reply.rows[g].size(), group.tables.size(), "PullRequest.groups.tables");
    }
    if (group.dims.size() != group.tables.size()) {
      return Mismatch("PullRequest.groups.dims", group.dims.size(), group.tables.size(), "PullRequest.groups.tables");
    }
    for (size_t t = 0; t < group.tables.size(); ++t) {
      destinations.push_back({reply.rows[g][t], uint64_t{group.dims[t]} * group.keys.size()});
    }
  }
  destinations.push_back({reply.dense, request.dense ? reply.dense_floats : 0});
  for (const Destination& d : destinations) {
    if (d.to == nullptr && d.floats > 0) {
      return absl::InvalidArgumentError(absl::StrCat("PullReply: no destination for ", d.floats, " floats"));
    }
  }
  return destinations;
}

// Copies the values field to the destinations if it has exactly their size or is empty.
absl::Status ReadValues(const Field& field, ValueType type, absl::Span<const Destination> destinations,
                        uint64_t* values_bytes) {
  SHOAL_RETURN_IF_ERROR(field.Expect("PullReply.values", kBytesType));
  size_t size = 0;
  SHOAL_RETURN_IF_ERROR(field.reader->ReadLength(&size));
  *values_bytes = size;
  if (size == 0) return absl::OkStatus();
  uint64_t expected = 0;
  for (const Destination& d : destinations) expected += d.floats * ValueBytes(type);
  if (size != expected) {
    return absl::InvalidArgumentError(
        absl::StrCat("PullReply.values: ", size, " bytes, must be ", expected, " as asked for"));
  }
  for (const Destination& d : destinations) {
    if (d.floats > 0) codec_internal::CopyValues(type, field.reader, d.floats, d.to);
  }
  return absl::OkStatus();
}

absl::Status CheckReply(const PullReply& reply, absl::Span<const Destination> destinations,
                        absl::Span<const uint64_t> sizes, ValueType type, uint64_t values_bytes) {
  if (reply.outcome != RequestOutcome::kOk) {
    if (values_bytes == 0) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("PullReply.values: ", values_bytes, " bytes, must be 0 when the outcome is not OK"));
  }
  if (sizes.size() != destinations.size()) {
    return Mismatch("PullReply.sizes", sizes.size(), destinations.size(), "what was asked for");
  }
  uint64_t total = 0;
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] != destinations[i].floats) {
      return absl::InvalidArgumentError(
          absl::StrCat("PullReply.sizes[", i, "]: ", sizes[i], " floats, must be ", destinations[i].floats));
    }
    total += sizes[i] * ValueBytes(type);
  }
  if (values_bytes != total) {
    return absl::InvalidArgumentError(absl::StrCat("PullReply.values: ", values_bytes, " bytes, must be ", total));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ByteArray> EncodePullRequest(const PullRequest& request, uint64_t max_bytes, BufferPool* pool) {
  SHOAL_RETURN_IF_ERROR(CheckRequest(request));
  return codec_internal::WriteMessage("PullRequest", max_bytes, pool, [&](WireWriter* w) {
    codec_internal::WriteHeader(1, request.header, w);
    w->Varint(2, request.read_only);
    w->Varint(3, request.batch);
    w->Varint(4, request.finished);
    w->Varint(5, request.logical_lane);
    w->Varint(6, request.round);
    w->Varint(7, request.has_mark);
    w->Varint(8, request.dense);
    w->Array(9, request.partitions);
    for (const PullGroup& group : request.groups) {
      WireWriter counter(nullptr);
      WriteGroup(group, &counter);
      w->BytesHead(10, counter.size());
      WriteGroup(group, w);
    }
    w->Varint(11, request.dense_begin);
    w->Varint(12, request.dense_count);
    w->Varint(13, static_cast<uint64_t>(request.value_type));
  });
}

absl::StatusOr<OwnedPullRequest> DecodePullRequest(Chunks message, BufferPool* pool) {
  OwnedPullRequest owned;
  PullRequest& r = owned.request;
  r.dense = false;  // the wire leaves out what is false
  WireReader reader(message);
  SHOAL_RETURN_IF_ERROR(ReadFields(&reader, pool, [&](const Field& f) {
    switch (f.number) {
      case 1:
        return codec_internal::ReadHeader(f, &r.header);
      case 2:
        return f.Bool("read_only", &r.read_only);
      case 3:
        return f.U64("batch", &r.batch);
      case 4:
        return f.U64("finished", &r.finished);
      case 5:
        return f.U32("logical_lane", &r.logical_lane);
      case 6:
        return f.U64("round", &r.round);
      case 7:
        return f.Bool("has_mark", &r.has_mark);
      case 8:
        return f.Bool("dense", &r.dense);
      case 9:
        return f.Array("partitions", kMaxPartitions, &owned.storage, &r.partitions);
      case 10:
        return ReadGroup(f, &owned);
      case 11:
        return f.U64("dense_begin", &r.dense_begin);
      case 12:
        return f.U64("dense_count", &r.dense_count);
      case 13:
        return f.Values("value_type", &r.value_type);
      default:
        return reader.SkipField(f.type);
    }
  }));
  SHOAL_RETURN_IF_ERROR(CheckRequest(r));
  return owned;
}

absl::StatusOr<ByteArray> AllocatePullValues(const PullRequest& request, const FlatSizes& sizes, uint64_t max_bytes,
                                             PullReply* reply, BufferPool* pool) {
  uint64_t floats = 0;
  size_t wanted = 1;
  for (const PullGroup& group : request.groups) wanted += group.tables.size();
  if (sizes.size() != wanted) {
    return absl::InternalError(absl::StrCat("sizes of a pull: ", sizes.size(), ", must be ", wanted));
  }
  constexpr size_t kMaxSizes = kMaxHeadBytes / 16;  // they travel with 8 bytes each
  if (sizes.size() > kMaxSizes) {
    return absl::InvalidArgumentError(
        absl::StrCat("PullRequest.groups.tables: ", sizes.size() - 1, " in all, must be fewer than ", kMaxSizes));
  }
  for (uint64_t size : sizes) {
    // Compared before it is added: the sum cannot overflow.
    if (size > max_bytes / sizeof(float) - floats) {
      return absl::InvalidArgumentError(absl::StrCat("PullReply.values: ", floats, " + ", size,
                                                     " floats, must be at most ", max_bytes / sizeof(float),
                                                     "; ask for fewer rows at a time"));
    }
    floats += size;
  }
  ByteArray values(floats * sizeof(float), pool);
  auto* next = reinterpret_cast<float*>(values.data());
  size_t i = 0;
  reply->rows.assign(request.groups.size(), {});
  for (size_t g = 0; g < request.groups.size(); ++g) {
    for (size_t t = 0; t < request.groups[g].tables.size(); ++t) {
      reply->rows[g].push_back(next);
      next += sizes[i++];
    }
  }
  reply->dense = next;
  reply->dense_floats = sizes.back();
  return values;
}

ByteArray EncodePullReplyHead(const PullReply& reply, const FlatSizes& sizes, ValueType type, BufferPool* pool) {
  const auto write = [&](WireWriter* w) {
    w->Varint(1, static_cast<uint64_t>(reply.outcome));
    w->Varint(2, reply.map_version);
    w->Varint(3, reply.slowest_clock);
    w->Varint(4, reply.pushes_applied);
    w->Varint(8, reply.parked_us);
    if (reply.outcome != RequestOutcome::kOk) return;
    w->Varint(5, static_cast<uint64_t>(type));
    w->Array(6, absl::MakeConstSpan(sizes));
    uint64_t floats = 0;
    for (uint64_t size : sizes) floats += size;
    if (floats > 0) w->BytesHead(7, floats * ValueBytes(type));
  };
  WireWriter counter(nullptr);
  write(&counter);
  ByteArray head(counter.size(), pool);
  WireWriter writer(head.data());
  write(&writer);
  return head;
}

absl::Status CheckPullDestinations(const PullRequest& request, const PullReply& reply) {
  return DestinationsOf(request, reply).status();
}

absl::Status DecodePullReply(Chunks message, const PullRequest& request, PullReply* reply, BufferPool* pool) {
  SHOAL_ASSIGN_OR_RETURN(const std::vector<Destination> destinations, DestinationsOf(request, *reply));
  std::vector<ByteArray> storage;
  absl::Span<const uint64_t> sizes;
  uint64_t outcome = 0;
  ValueType type = ValueType::kF32;
  uint64_t values_bytes = 0;
  reply->map_version = reply->slowest_clock = reply->pushes_applied = reply->parked_us = 0;
  WireReader reader(message);
  SHOAL_RETURN_IF_ERROR(ReadFields(&reader, pool, [&](const Field& f) {
    switch (f.number) {
      case 1:
        return f.Varint("PullReply.outcome", static_cast<uint64_t>(RequestOutcome::kFenced), &outcome);
      case 2:
        return f.U64("PullReply.map_version", &reply->map_version);
      case 3:
        return f.U64("PullReply.slowest_clock", &reply->slowest_clock);
      case 4:
        return f.U64("PullReply.pushes_applied", &reply->pushes_applied);
      case 5:
        return f.Values("PullReply.value_type", &type);
      case 6:
        return f.Array("PullReply.sizes", destinations.size(), &storage, &sizes);
      case 7:
        return ReadValues(f, request.value_type, destinations, &values_bytes);
      case 8:
        return f.U64("PullReply.parked_us", &reply->parked_us);
      default:
        return reader.SkipField(f.type);
    }
  }));
  reply->outcome = static_cast<RequestOutcome>(outcome);
  if (type != request.value_type && values_bytes > 0) {
    return absl::InvalidArgumentError(absl::StrCat("PullReply.value_type: ", static_cast<int>(type), ", must be ",
                                                   static_cast<int>(request.value_type), " as asked for"));
  }
  return CheckReply(*reply, destinations, sizes, request.value_type, values_bytes);
}

}  // namespace shoal
