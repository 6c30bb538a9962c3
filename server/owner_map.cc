#include "server/owner_map.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

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
void Settle(uint64_t owner, bool backup, uint64_t self, OwnerMap::Place* place) {
  const bool standby = place->role == PartitionRole::kStandby;
  if (owner == self) {
    if (!standby) return;  // serves on, or stays frozen until the end of its move is known
    place->partition->Reopen();
    place->role = PartitionRole::kServing;
    place->from = 0;
    place->listed_backup = false;
    return;
  }
  // A standby that arrived a moment ago is not in the map yet; one that was a backup and no longer is has fallen
  // behind.
  const bool kept = standby && (backup || (owner == place->from && !place->listed_backup));
  if (kept) {
    place->listed_backup |= backup;
    return;
  }
  place->partition->Close();
  *place = OwnerMap::Place();
}

}  // namespace

absl::StatusOr<std::shared_ptr<const OwnerMap>> NextOwnerMap(const JobView& view, uint64_t self, uint32_t partitions,
                                                             const OwnerMap* before) {
  SHOAL_RETURN_IF_ERROR(CheckMap(view, partitions));
  auto map = before == nullptr ? std::make_shared<OwnerMap>() : std::make_shared<OwnerMap>(*before);
  map->version = view.map_version();
  map->at.resize(partitions);
  for (uint32_t p = 0; p < partitions; ++p) {
    const int i = static_cast<int>(p);
    OwnerMap::Place& place = map->at[p];
    const uint64_t owner = view.servers(static_cast<int>(view.owner(i))).process();
    const uint32_t backup = view.backup_size() == 0 ? 0 : view.backup(i);
    const bool is_backup = backup != 0 && view.servers(static_cast<int>(backup - 1)).process() == self;
    if (place.partition != nullptr) Settle(owner, is_backup, self, &place);
    place.mine = owner == self;
  }
  return std::shared_ptr<const OwnerMap>(std::move(map));
}

}  // namespace shoal
