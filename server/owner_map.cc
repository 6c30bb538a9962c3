#include "server/owner_map.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/replication/replica_stream.h"

namespace shoal {
namespace {

absl::Status CheckMap(const JobView& view, uint32_t partitions) {
  if (static_cast<uint32_t>(view.owner_size()) != partitions) {
    return absl::InvalidArgumentError(
        absl::StrCat("view.owner: ", view.owner_size(), " entries, must be the job's partitions, ", partitions));
  }
  if (view.backup_size() != 0 && static_cast<uint32_t>(view.backup_size()) != partitions) {
    return absl::InvalidArgumentError(
        absl::StrCat("view.backup: ", view.backup_size(), " entries, must be 0 or the job's partitions, ", partitions));
  }
  const auto servers = static_cast<uint32_t>(view.servers_size());
  for (int p = 0; p < view.owner_size(); ++p) {
    if (view.owner(p) >= servers) {
      return absl::InvalidArgumentError(
          absl::StrCat("view.owner[", p, "]: ", view.owner(p), ", must be below ", servers));
    }
  }
  for (int p = 0; p < view.backup_size(); ++p) {
    if (view.backup(p) > servers) {
      return absl::InvalidArgumentError(
          absl::StrCat("view.backup[", p, "]: ", view.backup(p), ", must be at most ", servers));
    }
  }
  return absl::OkStatus();
}

// What becomes of a partition that is here.
void Settle(uint64_t owner, uint64_t backup, uint64_t self, OwnerMap::Place* place) {
  const bool standby = place->role == PartitionRole::kStandby;
  if (owner == self && !standby) {
    // Serves on, or stays frozen until the end of its move is known. A backup that no map has named yet is waited for.
    if (place->stream == nullptr) return;
    if (backup == place->stream->target()) {
      place->backup_listed = true;
    } else if (place->backup_listed) {
      place->stream = nullptr;
      place->backup_listed = false;
    }
    return;
  }
  const std::shared_ptr<Partition> partition = place->partition;
  const bool named = standby && backup == self;
  // A standby that arrived a moment ago is not in the map yet; one that was a backup and no longer is has fallen
  // behind.
  const bool stays = standby && (named || (owner == place->from && !place->backup_listed));
  if (owner == self && place->complete) {
    *place = OwnerMap::Place();
    place->partition = partition;
    place->role = PartitionRole::kServing;
  } else if (owner != self && stays) {
    place->backup_listed |= named;
  } else {
    *place = OwnerMap::Place();
  }
}

}  // namespace

absl::StatusOr<std::shared_ptr<OwnerMap>> NextOwnerMap(const JobView& view, uint64_t self, uint32_t partitions,
                                                       const OwnerMap* before) {
  SHOAL_RETURN_IF_ERROR(CheckMap(view, partitions));
  auto map = before == nullptr ? std::make_shared<OwnerMap>() : std::make_shared<OwnerMap>(*before);
  map->version = view.map_version();
  map->at.resize(partitions);
  for (uint32_t p = 0; p < partitions; ++p) {
    const int i = static_cast<int>(p);
    OwnerMap::Place& place = map->at[p];
    const uint64_t owner = view.servers(static_cast<int>(view.owner(i))).process();
    const uint32_t named = view.backup_size() == 0 ? 0 : view.backup(i);
    const uint64_t backup = named == 0 ? 0 : view.servers(static_cast<int>(named - 1)).process();
    if (place.partition != nullptr) Settle(owner, backup, self, &place);
    place.owner = owner;
    place.backup = backup;
    place.mine = owner == self;
  }
  return map;
}

std::shared_ptr<SharedTensors> ShareTensors(const JobSchema& schema, const OwnerMap& map) {
  auto tensors = SharedTensors::Create(schema.layout, static_cast<uint32_t>(schema.tensors.size()));
  for (uint32_t p = 0; p < schema.partitions; ++p) {
    if (schema.layout.FloatsOf(p) > 0) map.Owned(p)->MoveDense(tensors);
  }
  return tensors;
}

}  // namespace shoal
