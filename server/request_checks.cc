#include "server/request_checks.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/store/key_hash.h"

namespace shoal {
namespace {

absl::Status Bad(const std::string& what) { return absl::InvalidArgumentError(what); }

absl::Status CheckPosition(const JobSchema& schema, uint64_t pass, uint64_t split) {
  if (pass >= schema.passes) return Bad(absl::StrCat("pass: ", pass, ", must be below ", schema.passes));
  if (split >= schema.splits) return Bad(absl::StrCat("split: ", split, ", must be below ", schema.splits));
  return absl::OkStatus();
}

absl::Status CheckLogicalLane(const JobSchema& schema, uint32_t lane) {
  if (schema.sync != SyncMode::kBsp || lane < schema.lanes) return absl::OkStatus();
  return Bad(absl::StrCat("logical_lane: ", lane, ", must be below ", schema.lanes));
}

absl::Status CheckPartitions(const JobSchema& schema, absl::Span<const uint32_t> partitions) {
  for (size_t i = 0; i < partitions.size(); ++i) {
    if (partitions[i] >= schema.partitions) {
      return Bad(absl::StrCat("partitions[", i, "]: ", partitions[i], ", must be below ", schema.partitions));
    }
    if (i > 0 && partitions[i] <= partitions[i - 1]) {
      return Bad(
          absl::StrCat("partitions[", i, "]: ", partitions[i], ", must be above the one before, ", partitions[i - 1]));
    }
  }
  return absl::OkStatus();
}

template <typename Pointer>
absl::Status CheckTensors(const JobSchema& schema, absl::string_view field, absl::Span<Pointer const> tensors) {
  if (tensors.size() != schema.tensors.size()) {
    return Bad(absl::StrCat(field, ": ", tensors.size(), " tensors, must be ", schema.tensors.size()));
  }
  for (uint32_t t = 0; t < tensors.size(); ++t) {
    if (tensors[t] == nullptr && schema.layout.TensorSize(t) != 0) return Bad(absl::StrCat(field, "[", t, "]: null"));
  }
  return absl::OkStatus();
}

absl::Status CheckGroup(const JobSchema& schema, absl::Span<const uint32_t> partitions, size_t group,
                        absl::Span<const uint64_t> keys, absl::Span<const uint32_t> counts,
                        absl::Span<const uint32_t> tables, absl::Span<const uint32_t> dims) {
  if (counts.size() != partitions.size()) {
    return Bad(absl::StrCat("groups[", group, "].counts: ", counts.size(), " entries, must be as many as partitions, ",
                            partitions.size()));
  }
  uint64_t sum = 0;
  for (uint32_t count : counts) sum += count;
  if (sum != keys.size()) {
    return Bad(absl::StrCat("groups[", group, "].counts: sum ", sum, ", must be the number of keys, ", keys.size()));
  }
  for (uint32_t table : tables) {
    if (table < schema.tables.size()) continue;
    return Bad(absl::StrCat("groups[", group, "].tables: ", table, ", must be below ", schema.tables.size()));
  }
  // The sender's memory is as large as its own idea of a row: it must be ours before a row is touched.
  if (!dims.empty() && dims.size() != tables.size()) {
    return Bad(absl::StrCat("groups[", group, "].dims: ", dims.size(), " entries, must be 0 or as many as tables, ",
                            tables.size()));
  }
  for (size_t t = 0; t < dims.size(); ++t) {
    if (dims[t] == schema.tables[tables[t]].dim) continue;
    return Bad(absl::StrCat("groups[", group, "].dims[", t, "]: ", dims[t], ", table ", schema.tables[tables[t]].name,
                            " has ", schema.tables[tables[t]].dim));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckOpenSplit(const JobSchema& schema, const OpenSplitRequest& request) {
  SHOAL_RETURN_IF_ERROR(CheckPosition(schema, request.pass, request.split));
  if (request.header.lane == 0) return Bad("header.lane: 0, which is for read-only pulls");
  return CheckLogicalLane(schema, request.logical_lane);
}

absl::StatusOr<PullSizes> CheckPull(const JobSchema& schema, const PullRequest& request) {
  SHOAL_RETURN_IF_ERROR(CheckPartitions(schema, request.partitions));
  if (!request.read_only) {
    if (request.header.lane == 0) return Bad("header.lane: 0, which is for read-only pulls");
    SHOAL_RETURN_IF_ERROR(CheckLogicalLane(schema, request.logical_lane));
  }
  PullSizes sizes;
  for (size_t g = 0; g < request.groups.size(); ++g) {
    const PullGroup& group = request.groups[g];
    SHOAL_RETURN_IF_ERROR(
        CheckGroup(schema, request.partitions, g, group.keys, group.counts, group.tables, group.dims));
    sizes.rows.emplace_back();
    for (uint32_t table : group.tables) {
      uint64_t floats;
      if (__builtin_mul_overflow(uint64_t{group.keys.size()}, uint64_t{schema.tables[table].dim}, &floats)) {
        return Bad(absl::StrCat("groups[", g, "].keys: ", group.keys.size(), " keys of table ",
                                schema.tables[table].name, " overflow 64 bits"));
      }
      sizes.rows.back().push_back(floats);
    }
  }
  if (!request.dense) return sizes;
  uint64_t all = 0;
  for (uint32_t partition : request.partitions) all += schema.layout.FloatsOf(partition);
  if (request.dense_begin > all || request.dense_count > all - request.dense_begin) {
    return Bad(absl::StrCat("dense_begin, dense_count: ", request.dense_begin, " and ", request.dense_count,
                            " floats, must end within the ", all, " of the partitions"));
  }
  sizes.dense = request.dense_count == 0 ? all - request.dense_begin : request.dense_count;
  return sizes;
}

absl::Status CheckDestinations(const JobSchema& schema, const PullRequest& request, const PullReply& reply,
                               const PullSizes& sizes) {
  if (reply.rows.size() != sizes.rows.size()) {
    return Bad(absl::StrCat("reply.rows: ", reply.rows.size(), " groups, must be ", sizes.rows.size()));
  }
  for (size_t g = 0; g < sizes.rows.size(); ++g) {
    if (reply.rows[g].size() != sizes.rows[g].size()) {
      return Bad(
          absl::StrCat("reply.rows[", g, "]: ", reply.rows[g].size(), " tables, must be ", sizes.rows[g].size()));
    }
    for (size_t t = 0; t < sizes.rows[g].size(); ++t) {
      if (reply.rows[g][t] == nullptr && sizes.rows[g][t] != 0) {
        return Bad(absl::StrCat("reply.rows[", g, "][", t, "]: null, must hold ", sizes.rows[g][t], " floats"));
      }
    }
  }
  if (!reply.tensors.empty() || request.share) {
    if (request.dense_begin != 0 || request.dense_count != 0) {
      return Bad(absl::StrCat("dense_begin, dense_count: ", request.dense_begin, " and ", request.dense_count,
                              ", must be 0 for whole tensors"));
    }
    return CheckTensors(schema, "reply.tensors", reply.tensors);
  }
  if (reply.dense_floats != 0 && reply.dense_floats < sizes.dense) {
    return Bad(absl::StrCat("reply.dense_floats: ", reply.dense_floats, ", must be at least ", sizes.dense));
  }
  if (reply.dense == nullptr && sizes.dense != 0) {
    return Bad(absl::StrCat("reply.dense: null, must hold ", sizes.dense, " floats"));
  }
  return absl::OkStatus();
}

absl::Status CheckPlaces(const JobSchema& schema, absl::Span<const uint32_t> partitions, size_t group,
                         absl::Span<const uint64_t> keys, absl::Span<const uint32_t> counts, uint64_t* hashes) {
  size_t at = 0;
  for (size_t i = 0; i < partitions.size(); ++i) {
    const size_t begin = at, end = at + counts[i];
    const uint32_t listed = partitions[i];
    uint32_t wrong = 0;
    for (; at < end; ++at) {
      const KeyPlace placed = PlaceOfKey(keys[at], schema.partitions);
      hashes[at] = placed.within;
      wrong |= placed.partition ^ listed;
    }
    if (wrong == 0) continue;
    for (at = begin; PlaceOfKey(keys[at], schema.partitions).partition == listed;) ++at;
    return Bad(absl::StrCat("groups[", group, "].keys[", at, "]: ", keys[at], " is listed under partition ", listed,
                            ", must be under ", PlaceOfKey(keys[at], schema.partitions).partition));
  }
  return absl::OkStatus();
}

absl::Status CheckSlots(const JobSchema& schema, size_t index, const PushGroup& group) {
  if (!group.slots.empty() && group.slots.size() != group.keys.size()) {
    return Bad(absl::StrCat("groups[", index, "].slots: ", group.slots.size(),
                            " entries, must be 0 or as many as keys, ", group.keys.size()));
  }
  uint32_t largest = group.slots.empty() ? group.slot : 0;
  for (uint16_t slot : group.slots) largest = std::max<uint32_t>(largest, slot);
  if (largest < schema.slot_count()) return absl::OkStatus();
  return Bad(absl::StrCat("groups[", index, "].slots: ", largest, ", must be below ", schema.slot_count()));
}

absl::Status CheckPush(const JobSchema& schema, const PushRequest& request, KeyHashes* hashes) {
  SHOAL_RETURN_IF_ERROR(CheckPosition(schema, request.pass, request.split));
  SHOAL_RETURN_IF_ERROR(CheckLogicalLane(schema, request.logical_lane));
  if (request.header.lane == 0) return Bad("header.lane: 0, which is for read-only pulls");
  if (request.begin > request.end || request.end == kSplitDone) {
    return Bad(absl::StrCat("end: ", request.end, ", must be at least begin, ", request.begin, ", and below 2^64 - 1"));
  }
  if (request.examples > request.end - request.begin) {
    return Bad(
        absl::StrCat("examples: ", request.examples, ", must be at most end - begin, ", request.end - request.begin));
  }
  SHOAL_RETURN_IF_ERROR(CheckPartitions(schema, request.partitions));
  for (size_t g = 0; g < request.groups.size(); ++g) {
    const PushGroup& group = request.groups[g];
    SHOAL_RETURN_IF_ERROR(
        CheckGroup(schema, request.partitions, g, group.keys, group.counts, group.tables, group.dims));
    if (group.gradients.size() != group.tables.size()) {
      return Bad(absl::StrCat("groups[", g, "].gradients: ", group.gradients.size(), " tables, must be ",
                              group.tables.size()));
    }
    for (const float* gradients : group.gradients) {
      if (gradients == nullptr && !group.keys.empty()) return Bad(absl::StrCat("groups[", g, "].gradients: null"));
    }
    if (!group.occurrences.empty() && group.occurrences.size() != group.keys.size()) {
      return Bad(absl::StrCat("groups[", g, "].occurrences: ", group.occurrences.size(),
                              " entries, must be 0 or as many as keys, ", group.keys.size()));
    }
    SHOAL_RETURN_IF_ERROR(CheckSlots(schema, g, group));
    SHOAL_RETURN_IF_ERROR(
        CheckPlaces(schema, request.partitions, g, group.keys, group.counts, hashes->Add(group.keys.size())));
  }
  if (!request.tensors.empty()) {
    if (request.dense.empty()) return CheckTensors(schema, "tensors", request.tensors);
    return Bad(absl::StrCat("dense: ", request.dense.size(), " floats, must be 0 beside whole tensors"));
  }
  uint64_t dense = 0;
  for (uint32_t partition : request.partitions) dense += schema.layout.FloatsOf(partition);
  if (!request.dense.empty() && request.dense.size() != dense) {
    return Bad(absl::StrCat("dense: ", request.dense.size(), " floats, must be 0 or those of the partitions' blocks, ",
                            dense));
  }
  return absl::OkStatus();
}

absl::Status CheckMark(const JobSchema& schema, const MarkRequest& request) {
  if (schema.sync != SyncMode::kBsp) return Bad("mark: the job's sync is not bsp");
  if (!request.has_round && !request.last) return Bad("mark: has neither a round nor `last`");
  if (request.has_round && request.round == ~uint64_t{0}) {
    return Bad(absl::StrCat("round: ", request.round, ", must be below 2^64 - 1"));
  }
  return CheckLogicalLane(schema, request.logical_lane);
}

size_t PushSlices::MostRows() const {
  size_t tables = 0;
  for (const PushGroup& group : request_.groups) tables += group.tables.size();
  return tables * request_.partitions.size();
}

DenseGradients PushSlices::Next(std::pmr::vector<RowGradients>* out) {
  const uint32_t partition = request_.partitions[next_];
  for (size_t g = 0; g < request_.groups.size(); ++g) {
    const PushGroup& group = request_.groups[g];
    const uint64_t count = group.counts[next_];
    const uint64_t offset = offsets_[g];
    offsets_[g] += count;
    if (count == 0) continue;
    for (size_t t = 0; t < group.tables.size(); ++t) {
      RowGradients rows;
      rows.table = group.tables[t];
      rows.keys = group.keys.subspan(offset, count);
      if (hashes_ != nullptr) rows.hashes = absl::MakeConstSpan(hashes_->of(g) + offset, count);
      rows.sums = group.gradients[t] + offset * schema_.tables[rows.table].dim;
      if (!group.occurrences.empty()) rows.occurrences = group.occurrences.subspan(offset, count);
      if (!group.slots.empty()) rows.slots = group.slots.subspan(offset, count);
      rows.slot = group.slot;
      out->push_back(rows);
    }
  }
  ++next_;
  if (!request_.tensors.empty()) return DenseGradients::InTensors(request_.tensors);
  if (request_.dense.empty()) return {};
  const float* const dense = request_.dense.data() + dense_offset_;
  dense_offset_ += schema_.layout.FloatsOf(partition);
  return DenseGradients::InARow(dense);
}

uint64_t SumOverServed(const JobSchema& schema, const PushRequest& request, const OwnerMap& map,
                       absl::FunctionRef<uint64_t(uint32_t id, const Partition&, const PartitionGradients&)> bytes) {
  uint64_t sum = 0;
  PushSlices slices(schema, request, nullptr);
  PartitionGradients gradients;
  for (uint32_t id : request.partitions) {
    gradients.rows.clear();
    gradients.dense = slices.Next(&gradients.rows);
    if (map.Serving(id) != nullptr) sum += bytes(id, *map.Serving(id), gradients);
  }
  return sum;
}

PushRange RangeOf(const JobSchema& schema, const PushRequest& request) {
  PushRange range;
  range.split = request.pass * schema.splits + request.split;
  range.lease = request.lease;
  range.begin = request.begin;
  range.end = request.end;
  range.end_of_split = request.end_of_split;
  range.examples = request.examples;
  return range;
}

}  // namespace shoal
