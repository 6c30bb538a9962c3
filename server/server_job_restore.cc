// Partitions that begin empty or come out of a checkpoint.
#include <algorithm>
#include <atomic>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/checkpoint/checkpoint.h"
#include "server/checkpoint/part_file.h"
#include "server/server_job.h"

namespace shoal {
namespace {

// Sections that are read and parsed at the same time: enough to keep a fast disk busy, with a section each in memory.
constexpr size_t kLoaders = 8;

absl::Status In(const std::string& file, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(file, ": ", status.message()));
}

// Calls work(i) for i below `count` on a few threads; the first error ends it.
absl::Status ForEach(size_t count, const std::function<absl::Status(size_t)>& work) {
  std::atomic<size_t> next{0};
  Mutex mu;
  absl::Status first;
  const auto run = [&] {
    for (size_t i = next++; i < count; i = next++) {
      const absl::Status status = work(i);
      if (status.ok()) continue;
      next = count;
      MutexLock lock(&mu);
      first.Update(status);
    }
  };
  std::vector<std::thread> threads;
  const size_t most = std::min({count, kLoaders, std::max<size_t>(1, std::thread::hardware_concurrency())});
  for (size_t i = 1; i < most; ++i) threads.emplace_back(run);
  run();
  for (std::thread& thread : threads) thread.join();
  return first;
}

}  // namespace

absl::Status ServerJob::LoadPart(const std::string& dir, const Manifest& manifest, const PartInfo& info,
                                 std::vector<std::shared_ptr<Partition>>* missing) const {
  const auto wanted = [&](uint32_t p) { return p < missing->size() && (*missing)[p] != nullptr; };
  if (std::none_of(info.partitions().begin(), info.partitions().end(), wanted)) return absl::OkStatus();
  const std::string file = absl::StrCat(dir, "/", info.file());
  SHOAL_ASSIGN_OR_RETURN(const std::unique_ptr<PartFile> part, PartFile::Open(file, info.bytes()));
  const absl::Status fits = CheckHeader(part->header());
  if (!fits.ok()) return In(file, fits);
  std::vector<PartEntry> entries;
  std::vector<std::shared_ptr<Partition>> targets;
  for (const PartEntry& entry : part->entries()) {
    if (!wanted(entry.partition)) continue;
    entries.push_back(entry);
    targets.push_back(std::move((*missing)[entry.partition]));
    (*missing)[entry.partition] = nullptr;
  }
  const absl::Status loaded = ForEach(entries.size(), [&](size_t i) {
    std::string section;
    SHOAL_RETURN_IF_ERROR(part->ReadSection(entries[i], &section));
    uint64_t rounds = 0;
    SHOAL_RETURN_IF_ERROR(targets[i]->Load(section, part->header(), entries[i], &rounds));
    if (schema_->sync != SyncMode::kBsp || rounds == manifest.rounds_applied()) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat("partition ", entries[i].partition, ": cut at round ", rounds,
                                            ", the manifest at ", manifest.rounds_applied()));
  });
  return loaded.ok() ? loaded : In(file, loaded);
}

absl::Status ServerJob::LoadAll(const std::string& path, const std::vector<std::shared_ptr<Partition>>& partitions,
                                uint64_t* rounds) const {
  std::string dir;
  SHOAL_ASSIGN_OR_RETURN(const Manifest manifest, ReadManifest(path, &dir));
  std::vector<std::shared_ptr<Partition>> missing(schema_->partitions);
  std::vector<uint32_t> in_parts(schema_->partitions, 0);
  for (const std::shared_ptr<Partition>& partition : partitions) missing[partition->id()] = partition;
  for (const PartInfo& info : manifest.parts()) {
    for (uint32_t p : info.partitions()) {
      if (p < in_parts.size() && ++in_parts[p] == 2) {
        return In(dir, absl::DataLossError(absl::StrCat("partition ", p, " is in two parts")));
      }
    }
  }
  for (const PartInfo& info : manifest.parts()) SHOAL_RETURN_IF_ERROR(LoadPart(dir, manifest, info, &missing));
  for (const std::shared_ptr<Partition>& partition : missing) {
    if (partition != nullptr) {
      return In(dir, absl::DataLossError(absl::StrCat("partition ", partition->id(), " is in no part")));
    }
  }
  *rounds = schema_->sync == SyncMode::kBsp ? manifest.rounds_applied() : 0;
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
