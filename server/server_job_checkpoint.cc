// A job's way into a checkpoint.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/checkpoint/checkpoint.h"
#include "server/checkpoint/part_file.h"
#include "server/server_job.h"

namespace shoal {
PartHeader ServerJob::Header() const {
  PartHeader header;
  header.job = job_;
  header.run = run_;
  header.partitions = schema_->partitions;
  for (const SparseSchema& table : schema_->tables) header.tables.push_back({table.name, table.dim, table.state});
  for (const TensorSpec& tensor : schema_->tensors) header.tensors.push_back(tensor.name());
  header.slots = schema_->slots;
  return header;
}

absl::Status ServerJob::CheckHeader(const PartHeader& header) const {
  if (header.partitions != schema_->partitions) {
    return absl::InvalidArgumentError(
        absl::StrCat("partitions: the checkpoint has ", header.partitions, ", the job ", schema_->partitions));
  }
  if (header.tables.size() != schema_->tables.size() || header.tensors.size() != schema_->tensors.size()) {
    return absl::InvalidArgumentError(absl::StrCat("the checkpoint has ", header.tables.size(), " tables and ",
                                                   header.tensors.size(), " tensors, the job ", schema_->tables.size(),
                                                   " and ", schema_->tensors.size()));
  }
  for (size_t t = 0; t < header.tables.size(); ++t) {
    const PartHeader::Table& saved = header.tables[t];
    const SparseSchema& wanted = schema_->tables[t];
    if (saved.name == wanted.name && saved.dim == wanted.dim && saved.state == wanted.state) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("table ", t, ": the checkpoint has ", saved.name, " with dim ", saved.dim, " and ", saved.state,
                     " floats of optimizer state, the job ", wanted.name, " with ", wanted.dim, " and ", wanted.state));
  }
  for (size_t t = 0; t < header.tensors.size(); ++t) {
    if (header.tensors[t] == schema_->tensors[t].name()) continue;
    return absl::InvalidArgumentError(absl::StrCat("tensor ", t, ": the checkpoint has ", header.tensors[t],
                                                   ", the job ", schema_->tensors[t].name()));
  }
  if (header.slots.size() != schema_->slots.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("slots: the checkpoint has ", header.slots.size(), ", the job ", schema_->slots.size()));
  }
  for (size_t s = 0; s < header.slots.size(); ++s) {
    if (header.slots[s] == schema_->slots[s]) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("slot ", s, ": the checkpoint has ", header.slots[s], ", the job ", schema_->slots[s]));
  }
  return absl::OkStatus();
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
  while (rounds_.applied() < *cut && !dropped_) {
    const absl::Duration left = end - clock.Now();
    if (left <= absl::ZeroDuration()) break;
    round_applied_.WaitFor(&mu_, left);
  }
  if (rounds_.applied() == *cut && !dropped_) return absl::OkStatus();
  // No round was kept back yet: the cut lies ahead.
  cuts_.erase(std::find(cuts_.begin(), cuts_.end(), *cut));
  if (dropped_) return absl::CancelledError(absl::StrCat("job ", job_, " was dropped"));
  return absl::DeadlineExceededError(absl::StrCat("cut_round: ", *cut, ", only ", rounds_.applied(),
                                                  " rounds applied after ", absl::FormatDuration(timeout)));
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
  uint64_t cut = 0;
  SHOAL_RETURN_IF_ERROR(HoldRound(task, timeout, &cut));
  const std::shared_ptr<const OwnerMap> map = Map();
  const uint64_t rounds = schema_->sync == SyncMode::kBsp ? cut : 0;
  const auto write = [&]() -> absl::StatusOr<PartInfo> {
    const std::string file = PartFileName(options_.name);
    SHOAL_ASSIGN_OR_RETURN(const std::unique_ptr<PartWriter> writer,
                           PartWriter::Create(absl::StrCat(task.dir(), "/", task.name(), ".tmp"), file, Header()));
    PartInfo info;
    std::string section;
    for (uint32_t p = 0; p < schema_->partitions; ++p) {
      if (map->Owned(p) == nullptr) continue;
      section.clear();
      PartitionDone done;
      const PartEntry entry = map->Owned(p)->Save(rounds, &section, &done);
      SHOAL_RETURN_IF_ERROR(writer->Add(entry, section));
      info.add_partitions(p);
      *info.add_done() = std::move(done);
      info.set_rows(info.rows() + entry.rows);
      info.set_keys(info.keys() + entry.rows + entry.counted);
    }
    SHOAL_RETURN_IF_ERROR(writer->Finish());
    info.set_file(file);
    info.set_bytes(writer->bytes());
    info.set_checksum(writer->checksum());
    return info;
  };
  absl::StatusOr<PartInfo> info = write();
  ReleaseRound(cut);
  return info;
}

}  // namespace shoal
