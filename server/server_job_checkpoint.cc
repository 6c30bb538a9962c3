// A job's way into a checkpoint.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/checkpoint/background_writer.h"
#include "server/checkpoint/checkpoint.h"
#include "server/checkpoint/part_file.h"
#include "server/server_job.h"

namespace shoal {
namespace {

// Copies of partitions that may wait for the disk. In bsp lanes stand still until everything is copied, so a job whose
// part is no larger than this loses no time to the disk; more would be much beside what the tables themselves take.
constexpr uint64_t kMostQueuedBytes = 256 << 20;
// Nobody waits for the copies of asp and ssp: few at a time stay in the caches and in the same memory.
constexpr uint64_t kFewQueuedBytes = 16 << 20;

}  // namespace

PartHeader ServerJob::Header() const {
  PartHeader header = schema_->header;
  header.job = job_;
  header.run = run_;
  return header;
}

absl::Status ServerJob::HoldRound(const CheckpointTask& task, absl::Duration timeout, uint64_t* cut) {
  const Clock& clock = Clock::Steady();
  const absl::Duration end = clock.Now() + timeout;
  MutexLock lock(&mu_);
  *cut = task.cut_at_round() ? task.cut_round() : rounds_.applied();
  if (schema_->sync != SyncMode::kBsp) return absl::OkStatus();
  if (rounds_.applied() > *cut) {
    return absl::FailedPreconditionError(
        absl::StrCat("cut_round: ", *cut, ", round ", rounds_.applied(), " is already applied here"));
  }
  cuts_.push_back(*cut);
  // A cut behind the last round would hold up the final checkpoint, which waits in the same queue.
  while (rounds_.applied() < *cut && !dropped_ && !rounds_.Over()) {
    const absl::Duration left = end - clock.Now();
    if (left <= absl::ZeroDuration()) break;
    round_applied_.WaitFor(&mu_, left);
  }
  if (rounds_.applied() == *cut && !dropped_) return absl::OkStatus();
  // No round was kept back yet: the cut lies ahead.
  cuts_.erase(std::find(cuts_.begin(), cuts_.end(), *cut));
  if (dropped_) return absl::CancelledError(absl::StrCat("job ", job_, " was dropped"));
  return absl::DeadlineExceededError(
      absl::StrCat("cut_round: ", *cut, ", only ", rounds_.applied(), " rounds applied ",
                   rounds_.Over() ? "in all" : absl::StrCat("after ", absl::FormatDuration(timeout))));
}

void ServerJob::ReleaseRound(uint64_t cut) {
  if (schema_->sync != SyncMode::kBsp) return;
  ReleasedList released;
  {
    MutexLock lock(&mu_);
    cuts_.erase(std::find(cuts_.begin(), cuts_.end(), cut));
    Proceed(&released);
  }
  Answer(&released);
}

absl::StatusOr<PartInfo> ServerJob::WritePart(const CheckpointTask& task, absl::Duration timeout) {
  if (task.dir().empty() || task.name().empty() || task.name().find('/') != std::string::npos) {
    return absl::InvalidArgumentError(absl::StrCat("checkpoint: dir '", task.dir(), "' and name '", task.name(),
                                                   "' must not be empty, name without '/'"));
  }
  RemoveAbandoned(task.dir(), task.name());
  uint64_t cut = 0;
  SHOAL_RETURN_IF_ERROR(HoldRound(task, timeout, &cut));
  const std::shared_ptr<const OwnerMap> map = Map();
  const uint64_t rounds = schema_->sync == SyncMode::kBsp ? cut : 0;
  absl::StatusOr<std::unique_ptr<BackgroundWriter>> writer =
      BackgroundWriter::Create(absl::StrCat(task.dir(), "/", task.name(), ".tmp"), PartFileName(options_.name),
                               Header(), schema_->sync == SyncMode::kBsp ? kMostQueuedBytes : kFewQueuedBytes);
  PartInfo info;
  absl::Status status = writer.status();
  if (status.ok()) status = CopyPartitions(task, *map, rounds, timeout, writer->get(), &info);
  // Lanes go on; what was copied is written meanwhile.
  ReleaseRound(cut);
  SHOAL_RETURN_IF_ERROR(status);
  SHOAL_RETURN_IF_ERROR((*writer)->Finish());
  info.set_file(PartFileName(options_.name));
  info.set_bytes((*writer)->bytes());
  info.set_checksum((*writer)->checksum());
  return info;
}

absl::Status ServerJob::CopyPartitions(const CheckpointTask& task, const OwnerMap& map, uint64_t rounds,
                                       absl::Duration timeout, BackgroundWriter* writer, PartInfo* info) const {
  for (uint32_t p = 0; p < schema_->partitions; ++p) {
    Partition* const partition = map.Owned(p);
    if (partition == nullptr) continue;
    std::string section = writer->TakeBuffer();
    PartitionDone done;
    const PartEntry entry = schema_->delta_checkpoints && !task.final()
                                ? partition->SaveDelta(task.parent(), task.name(), rounds, &section, &done)
                                : partition->Save(rounds, &section, &done);
    SHOAL_RETURN_IF_ERROR(writer->Add(entry, std::move(section), timeout));
    info->add_partitions(p);
    *info->add_done() = std::move(done);
    info->set_rows(info->rows() + entry.rows);
    info->set_keys(info->keys() + entry.rows + entry.counted);
  }
  return absl::OkStatus();
}

}  // namespace shoal
