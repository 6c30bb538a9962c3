// Partitions that begin empty or come out of a checkpoint.
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/server_job.h"
#include "server/store/restore.h"

namespace shoal {

absl::Status ServerJob::LoadAll(const std::string& path, const std::vector<std::shared_ptr<Partition>>& partitions,
                                uint64_t* rounds) const {
  std::vector<Partition*> empty;
  for (const std::shared_ptr<Partition>& partition : partitions) empty.push_back(partition.get());
  RestoreReport report;
  SHOAL_RETURN_IF_ERROR(RestorePartitions(path, *schema_, empty, {}, &report));
  *rounds = schema_->sync == SyncMode::kBsp ? report.rounds_applied : 0;
  return absl::OkStatus();
}

absl::Status ServerJob::Install(std::vector<std::shared_ptr<Partition>> partitions, uint64_t rounds) {
  ReleasedList released;
  {
    MutexLock lock(&mu_);
    if (schema_->sync == SyncMode::kBsp && rounds != rounds_.applied()) {
      for (const OwnerMap::Place& place : map_->at) {
        if (place.partition == nullptr) continue;
        return absl::FailedPreconditionError(absl::StrCat("rounds_applied: ", rounds, " of what is to be restored, ",
                                                          rounds_.applied(), " of this server's other partitions"));
      }
      rounds_ = Rounds(schema_->lanes, rounds);
    }
    auto next = std::make_shared<OwnerMap>(*map_);
    for (std::shared_ptr<Partition>& partition : partitions) {
      OwnerMap::Place& place = next->at[partition->id()];
      if (!place.mine || place.partition != nullptr) continue;
      place.partition = std::move(partition);
      place.role = PartitionRole::kServing;
    }
    map_ = std::move(next);
    Release(&released);
  }
  Answer(&released);
  return absl::OkStatus();
}

absl::Status ServerJob::Restore(const std::vector<uint32_t>& partitions, const std::string& path) {
  std::vector<std::shared_ptr<Partition>> fresh;
  const std::shared_ptr<const OwnerMap> map = Map();
  for (uint32_t p : partitions) {
    if (p >= schema_->partitions) {
      return absl::InvalidArgumentError(absl::StrCat("partitions: ", p, ", must be below ", schema_->partitions));
    }
    if (!map->at[p].mine) {
      return absl::FailedPreconditionError(
          absl::StrCat("partition ", p, ": map version ", map->version, " gives it to another server"));
    }
    if (map->at[p].partition == nullptr) fresh.push_back(std::make_shared<Partition>(*schema_, p, pools_, &stats_));
  }
  if (fresh.empty()) return absl::OkStatus();
  uint64_t rounds = 0;
  if (!path.empty()) SHOAL_RETURN_IF_ERROR(LoadAll(path, fresh, &rounds));
  return Install(std::move(fresh), rounds);
}

}  // namespace shoal
