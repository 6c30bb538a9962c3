#include "server/backup_room.h"

#include <map>

#include "base/status_macros.h"
#include "server/request_checks.h"
#include "server/store/sparse_table.h"

namespace shoal {
namespace {

using ByStream = std::map<std::shared_ptr<ReplicaStream>, uint64_t>;

// As if all keys were new.
ByStream QuickNeeds(const JobSchema& schema, const PushRequest& request, const OwnerMap& map) {
  ByStream needs;
  std::map<const ReplicaStream*, bool> limited;  // asked once each
  for (size_t i = 0; i < request.partitions.size(); ++i) {
    const std::shared_ptr<ReplicaStream>& stream = map.at[request.partitions[i]].stream;
    if (stream == nullptr) continue;
    const auto [known, fresh] = limited.emplace(stream.get(), false);
    if (fresh) known->second = stream->limited();
    if (!known->second) continue;
    uint64_t& bytes = needs[stream];
    for (const PushGroup& group : request.groups) {
      for (uint32_t table : group.tables) {
        bytes += group.counts[i] * (SparseTable::RowBytes(schema, table) + SparseTable::kIndexBytesPerKey);
      }
    }
  }
  return needs;
}

uint64_t ExactNeed(const JobSchema& schema, const PushRequest& request, const OwnerMap& map,
                   const ReplicaStream* stream) {
  const PushRange range = RangeOf(schema, request);
  return SumOverServed(schema, request, map,
                       [&](uint32_t id, const Partition& partition, const PartitionGradients& gradients) {
                         return map.at[id].stream.get() == stream ? partition.NewBytes(range, gradients) : 0;
                       });
}

}  // namespace

absl::Status BackupRoom::Take(const JobSchema& schema, const PushRequest& request, const OwnerMap& map) {
  for (const auto& [stream, quick] : QuickNeeds(schema, request, map)) {
    uint64_t bytes = quick;
    // Near the limit only: rows that are there already need nothing.
    if (!stream->TryTakeRoom(bytes)) {
      bytes = ExactNeed(schema, request, map, stream.get());
      const absl::Status taken = stream->TakeRoom(bytes);
      if (!taken.ok()) {
        Pin({});
        return taken;
      }
    }
    taken_.emplace_back(stream, bytes);
  }
  return absl::OkStatus();
}

void BackupRoom::Pin(const std::vector<ReplicaMark>& marks) {
  for (const auto& [stream, bytes] : taken_) stream->PinRoom(bytes, marks);
  taken_.clear();
}

}  // namespace shoal
