#include "server/server_job.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "server/request_checks.h"

namespace shoal {
namespace {

// Adds the slot unless nothing of it was ever seen here.
void FillSlotReport(const JobSchema& schema, uint32_t table, uint32_t slot, const SlotCounts& counts,
                    ServerJobReport* report) {
  const bool any =
      counts.keys > 0 || (counts.guard_refused | counts.not_admitted | counts.memory_refused | counts.expired) != 0;
  if (!any) return;
  SlotReport* const out = report->add_slots();
  out->set_table_index(table);
  out->set_slot_index(slot);
  const uint64_t rows = static_cast<uint64_t>(std::max<int64_t>(0, counts.rows));
  const uint64_t keys = static_cast<uint64_t>(std::max<int64_t>(0, counts.keys));
  out->set_rows(rows);
  out->set_keys(keys);
  out->set_bytes(rows * SparseTable::RowBytes(schema, table) + keys * sizeof(KeyIndex::Cell));
  out->set_guard_refused(counts.guard_refused);
  out->set_not_admitted(counts.not_admitted);
  out->set_memory_refused(counts.memory_refused);
  out->set_expired(counts.expired);
}

}  // namespace

ServerJob::ServerJob(const ParameterServerOptions& options, const JobConfig& config,
                     std::shared_ptr<const JobSchema> schema, uint64_t self)
    : options_(options),
      config_(config),
      schema_(std::move(schema)),
      self_(self),
      stats_(schema_->tables.size(), schema_->slot_count()),
      rounds_(schema_->lanes, 0),
      round_step_(*schema_, &stats_, options.round_threads, options.round_floats),
      grants_(&stats_, schema_->hard_limit_bytes) {}

absl::StatusOr<std::shared_ptr<ServerJob>> ServerJob::Create(const ParameterServerOptions& options,
                                                             const JobConfig& config, const JobView& view,
                                                             uint64_t self) {
  SHOAL_ASSIGN_OR_RETURN(std::shared_ptr<const JobSchema> schema, JobSchema::Create(config));
  std::shared_ptr<ServerJob> job(new ServerJob(options, config, std::move(schema), self));
  SHOAL_RETURN_IF_ERROR(job->Fill(view));
  return job;
}

absl::Status ServerJob::Fill(const JobView& view) {
  job_ = view.job();
  run_ = view.run();
  for (uint32_t table = 0; table < schema_->tables.size(); ++table) {
    pools_.push_back(std::make_unique<SlabPool>(SparseTable::SlabBytes(*schema_, table)));
  }
  MutexLock lock(&mu_);
  newest_run_ = run_;
  lanes_.Update(view);
  ReleasedList nothing;
  return TakeMap(view, &nothing);
}

std::shared_ptr<const OwnerMap> ServerJob::Map() const {
  MutexLock lock(&mu_);
  return map_;
}

std::vector<uint32_t> ServerJob::Mine() const {
  const std::shared_ptr<const OwnerMap> map = Map();
  std::vector<uint32_t> out;
  for (uint32_t p = 0; p < schema_->partitions; ++p) {
    if (map->at[p].mine) out.push_back(p);
  }
  return out;
}

absl::Status ServerJob::TakeMap(const JobView& view, ReleasedList* released) {
  SHOAL_ASSIGN_OR_RETURN(std::shared_ptr<OwnerMap> map, NextOwnerMap(view, self_, schema_->partitions, map_.get()));
  for (auto it = held_.begin(); it != held_.end();) {
    OwnerMap::Place& place = map->at[it->first];
    if (place.role == PartitionRole::kStandby) {
      ++it;
      continue;
    }
    if (place.role == PartitionRole::kServing && it->second.rounds_applied() == rounds_.applied()) {
      rounds_.Arrive(*schema_, it->first, it->second);
    } else if (place.role == PartitionRole::kServing) {
      // It does not fit the partitions that are here: the hold was not kept.
      place.partition = nullptr;
      place.role = PartitionRole::kNone;
      map_warning_ = absl::StrCat("partition ", it->first, ": a copy of round ", it->second.rounds_applied(),
                                  " cannot be served, ", rounds_.applied(), " rounds are applied here");
    }
    it = held_.erase(it);
  }
  SetMap(std::move(map), released);
  return absl::OkStatus();
}

void ServerJob::SetMap(std::shared_ptr<const OwnerMap> map, ReleasedList* released) {
  frozen_ = 0;
  for (uint32_t p = 0; p < schema_->partitions; ++p) {
    const OwnerMap::Place none;
    const OwnerMap::Place& before = map_ == nullptr ? none : map_->at[p];
    const OwnerMap::Place& after = map->at[p];
    const bool stays = before.partition == after.partition;
    frozen_ += after.role == PartitionRole::kFrozen ? 1 : 0;
    if (after.role == PartitionRole::kServing && before.role != PartitionRole::kServing) after.partition->Reopen();
    if (before.role == PartitionRole::kServing && !(stays && after.role == before.role)) before.partition->Close();
    if (before.stream == nullptr || before.stream == after.stream) continue;
    if (stays) before.partition->Mirror(false);
    // A newer map took the backup away: the primary acknowledges alone. If it took the partition away, lanes ask again.
    released->backups.push_back(
        {before.stream, p,
         stays ? absl::OkStatus()
               : absl::UnavailableError(absl::StrCat("partition ", p, ": it has left this server"))});
  }
  map_ = std::move(map);
  tensors_ = nullptr;
}

void ServerJob::Regroup(ReleasedList* released) {
  if (schema_->sync != SyncMode::kBsp) return;
  std::vector<uint32_t> mine;
  for (uint32_t p = 0; p < schema_->partitions; ++p) {
    if (map_->at[p].mine) mine.push_back(p);
  }
  stats_.reserved_bytes -= static_cast<int64_t>(rounds_.Keep(mine));
  for (ParkedPull& pull : parked_) {
    pull.reply->outcome = RequestOutcome::kStaleMap;
    Stamp(pull.reply);
    released->pulls.push_back({std::move(pull), absl::OkStatus(), false});
  }
  parked_.clear();
}

void ServerJob::EndTasks(const std::set<uint64_t>& tasks, ReleasedList* released) {
  std::shared_ptr<OwnerMap> next;
  for (uint32_t p = 0; p < schema_->partitions; ++p) {
    const OwnerMap::Place& place = map_->at[p];
    // bsp: several moves end with one map, and the hold with it. Until then what one of them froze stays frozen.
    const bool thaw = place.role == PartitionRole::kFrozen && tasks.count(place.move_task) == 0 && !hold_.has_value();
    const bool leave = place.stream != nullptr && !place.backup_listed && tasks.count(place.backup_task) == 0;
    if (!thaw && !leave) continue;
    if (next == nullptr) next = std::make_shared<OwnerMap>(*map_);
    if (thaw) {
      next->at[p].role = PartitionRole::kServing;
      next->at[p].move_task = 0;
    }
    if (leave) next->at[p].stream = nullptr;
  }
  if (next != nullptr) SetMap(std::move(next), released);
}

void ServerJob::UpdateView(const JobNews& news) {
  ReleasedList released;
  {
    MutexLock lock(&mu_);
    if (news.sequence <= news_) return;
    news_ = news.sequence;
    const JobView& view = news.view;
    newest_run_ = std::max(newest_run_, view.run());
    // A view of another run tells about other tables; PrepareJob brings them.
    if (view.run() == run_) {
      lanes_.Update(view);
      if (view.map_version() > map_->version) {
        map_warning_.clear();
        const absl::Status taken = TakeMap(view, &released);
        if (taken.ok()) Regroup(&released);
        if (!taken.ok())
          map_warning_ = absl::StrCat("map version ", view.map_version(), " is not usable, version ", map_->version,
                                      " stays: ", taken.message());
      }
      hold_ = view.has_hold() ? absl::optional<uint64_t>(view.hold_round()) : absl::nullopt;
      tasks_ = news.tasks;
      if (news.tasks != nullptr) EndTasks(*news.tasks, &released);
    }
    Proceed(&released);
  }
  Answer(&released);
}

void ServerJob::Drop() {
  ReleasedList released;
  {
    MutexLock lock(&mu_);
    const absl::Status status = absl::CancelledError(absl::StrCat("job ", job_, " was dropped"));
    dropped_ = true;
    for (ParkedPull& pull : parked_) released.pulls.push_back({std::move(pull), status, false});
    parked_.clear();
    for (uint32_t p = 0; p < schema_->partitions; ++p) {
      if (map_->at[p].stream != nullptr) released.backups.push_back({map_->at[p].stream, p, status});
    }
    round_applied_.SignalAll();
  }
  Answer(&released);
}

absl::StatusOr<RequestOutcome> ServerJob::Admit(const RequestHeader& header) const {
  if (dropped_) return absl::NotFoundError(absl::StrCat("job ", job_, ": dropped"));
  if (header.run > run_) {
    // PrepareJob is on its way.
    return absl::UnavailableError(
        absl::StrCat("job ", job_, " run ", header.run, ": this server still holds run ", run_));
  }
  if (header.run < newest_run_) return RequestOutcome::kFenced;
  if (header.lane != 0 && lanes_.Removed(header.lane)) return RequestOutcome::kFenced;
  return RequestOutcome::kOk;
}

absl::StatusOr<RequestOutcome> ServerJob::Welcome(const RequestHeader& header) const {
  MutexLock lock(&mu_);
  return Admit(header);
}

void ServerJob::OpenSplit(const OpenSplitRequest& request, OpenSplitReply* reply, const Done& done) {
  const absl::Status checked = CheckOpenSplit(*schema_, request);
  if (!checked.ok()) return done(checked);
  absl::Status status;
  {
    MutexLock lock(&mu_);
    const absl::StatusOr<RequestOutcome> admitted = Admit(request.header);
    status = admitted.status();
    reply->outcome = admitted.value_or(RequestOutcome::kOk);
    reply->map_version = map_->version;
    // The lane will talk to the servers of its own map: it must be ours, or a partition could be left out.
    if (status.ok() && reply->outcome == RequestOutcome::kOk && request.header.map_version != map_->version) {
      reply->outcome = RequestOutcome::kStaleMap;
    }
    if (status.ok() && reply->outcome == RequestOutcome::kOk) {
      reply->slowest_clock = lanes_.Slowest();
      lanes_.Join(request.header.lane);
      reply->rounds_applied = rounds_.applied();
      const uint64_t split = request.pass * schema_->splits + request.split;
      std::vector<uint64_t> watermarks;
      for (uint32_t p = 0; p < schema_->partitions && reply->outcome == RequestOutcome::kOk; ++p) {
        if (!map_->at[p].mine) continue;
        // One that is not here yet, or is leaving, is not to be left out either.
        Partition* const partition = map_->Serving(p);
        uint64_t watermark;
        reply->outcome =
            partition == nullptr ? RequestOutcome::kStaleMap : partition->Open(split, request.lease, &watermark);
        if (reply->outcome != RequestOutcome::kOk) {
          watermarks.clear();
        } else if (watermarks.empty() || watermarks.back() != watermark) {
          watermarks.push_back(watermark);
        }
      }
      std::sort(watermarks.begin(), watermarks.end());
      watermarks.erase(std::unique(watermarks.begin(), watermarks.end()), watermarks.end());
      reply->watermarks = std::move(watermarks);
    }
  }
  done(status);
}

std::vector<PartitionDone> ServerJob::ReportDone() const {
  std::vector<PartitionDone> out;
  MutexLock lock(&mu_);
  for (uint32_t p = 0; p < schema_->partitions; ++p) {
    if (map_->Owned(p) == nullptr) continue;
    out.push_back(map_->Owned(p)->Done());
    out.back().set_rounds_applied(rounds_.applied());
  }
  return out;
}

std::vector<TableDigest> ServerJob::Digest() const {
  std::vector<DigestSum> sums(schema_->tables.size() + schema_->tensors.size());
  const std::shared_ptr<const OwnerMap> map = Map();
  for (uint32_t p = 0; p < schema_->partitions; ++p) {
    if (map->Owned(p) != nullptr) map->Owned(p)->AddDigests(absl::MakeSpan(sums));
  }
  std::vector<TableDigest> out;
  for (size_t i = 0; i < sums.size(); ++i) {
    const bool sparse = i < schema_->tables.size();
    TableDigest digest;
    digest.set_table(sparse ? schema_->tables[i].name : schema_->tensors[i - schema_->tables.size()].name());
    digest.set_sum(sums[i].sum);
    digest.set_rows(sums[i].rows);
    out.push_back(std::move(digest));
  }
  return out;
}

ServerJobReport ServerJob::Report() const {
  ServerJobReport report;
  report.set_job(job_);
  SlotCounts all;
  for (uint32_t table = 0; table < schema_->tables.size(); ++table) {
    for (uint32_t slot = 0; slot < schema_->slot_count(); ++slot) {
      const SlotCounts counts = stats_.Of(table, slot);
      all.Add(counts);
      FillSlotReport(*schema_, table, slot, counts, &report);
    }
  }
  const uint64_t bytes = static_cast<uint64_t>(std::max<int64_t>(0, stats_.used_bytes));
  report.set_rows(static_cast<uint64_t>(std::max<int64_t>(0, all.rows)));
  report.set_bytes(bytes);
  report.set_pushes(pushes_);
  report.set_guard_refused(all.guard_refused + stats_.dense_refused);
  report.set_not_admitted(all.not_admitted);
  report.set_memory_refused(all.memory_refused);
  report.set_expired(all.expired);
  refused_.Fill(&report);
  std::shared_ptr<const OwnerMap> map;
  std::vector<std::string> warnings;
  {
    MutexLock lock(&mu_);
    map = map_;
    if (!map_warning_.empty()) warnings.push_back(map_warning_);
  }
  for (uint32_t p = 0; p < schema_->partitions; ++p) {
    if (map->Owned(p) != nullptr) *report.add_partitions() = map->Owned(p)->Usage();
  }
  if (schema_->soft_limit_bytes != 0 && bytes >= schema_->soft_limit_bytes) {
    warnings.push_back(absl::StrCat("memory.soft_limit: ", bytes, " bytes used of ", schema_->soft_limit_bytes,
                                    ": no new rows, ", all.memory_refused, " refused so far"));
  }
  report.set_warning(absl::StrJoin(warnings, "; "));
  return report;
}

}  // namespace shoal
