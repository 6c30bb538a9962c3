// Partitions that begin empty or come out of a checkpoint.
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "server/server_job.h"
#include "server/store/restore.h"
#include "server/store/warm_start.h"

namespace shoal {

absl::Status ServerJob::LoadAll(const std::string& path, const std::vector<std::shared_ptr<Partition>>& partitions,
                                uint64_t* rounds) {
  std::vector<Partition*> empty;
  for (const std::shared_ptr<Partition>& partition : partitions) empty.push_back(partition.get());
  RestoreReport report;
  const Clock& clock = Clock::Steady();
  const absl::Duration begun = clock.Now();
  SHOAL_RETURN_IF_ERROR(RestorePartitions(path, *schema_, empty, {}, &report));
  const double seconds = absl::ToDoubleSeconds(clock.Now() - begun);
  *rounds = schema_->sync == SyncMode::kBsp ? report.rounds_applied : 0;
  SetLoadNote(absl::StrFormat("%d partitions restored from %s: %d rows, %d bytes in %.3f s", report.partitions,
                              report.dir, report.rows, report.bytes, seconds));
  return absl::OkStatus();
}

absl::Status ServerJob::BeginWarm(const std::vector<std::shared_ptr<Partition>>& partitions) {
  if (schema_->warm_start.checkpoint().empty()) return absl::OkStatus();
  std::vector<Partition*> fresh;
  for (const std::shared_ptr<Partition>& partition : partitions) fresh.push_back(partition.get());
  SHOAL_ASSIGN_OR_RETURN(const WarmStartReport report, WarmStartPartitions(schema_->warm_start, *schema_, fresh));
  std::string note = absl::StrCat(fresh.size(), " partitions warm from ", report.dir, ":");
  for (const WarmStartReport::Table& table : report.tables) {
    absl::StrAppend(&note, " ", table.name, " ", table.rows, table.dense ? " blocks," : " rows,");
  }
  note.pop_back();
  if (!report.missing.empty()) absl::StrAppend(&note, "; begin anew: ", absl::StrJoin(report.missing, ", "));
  if (!report.extra.empty()) absl::StrAppend(&note, "; not used: ", absl::StrJoin(report.extra, ", "));
  SetLoadNote(std::move(note));
  return absl::OkStatus();
}

void ServerJob::SetLoadNote(std::string note) {
  MutexLock lock(&mu_);
  load_note_ = std::move(note);
}

std::string ServerJob::TakeLoadNote() {
  MutexLock lock(&mu_);
  return std::exchange(load_note_, {});
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
    SetMap(std::move(next), &released);
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
  SHOAL_RETURN_IF_ERROR(path.empty() ? BeginWarm(fresh) : LoadAll(path, fresh, &rounds));
  return Install(std::move(fresh), rounds);
}

}  // namespace shoal
