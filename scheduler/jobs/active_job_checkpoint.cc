// Periodic and final checkpoints: parts of all servers, then the manifest.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/checkpoint_name.h"
#include "proto/job/job_file.h"
#include "scheduler/jobs/active_job.h"
#include "scheduler/jobs/job_check.h"

namespace shoal {
namespace {

constexpr uint32_t kManifestVersion = 1;
constexpr uint32_t kDefaultKeep = 3;
// bsp: rounds may pass faster than tasks travel. Each attempt names a cut four times further ahead.
constexpr uint32_t kCutAttempts = 7;
constexpr uint64_t kCutGrowth = 4;
// bsp, cancelled: rounds are watched this long, this often, before they count as standing still.
constexpr absl::Duration kStandstill = absl::Seconds(2);
constexpr absl::Duration kWatchInterval = absl::Milliseconds(100);

}  // namespace

void ActiveJob::AdvanceCheckpoint() {
  if (!cycle_.has_value()) {
    // One that a loss put an end to is begun again when it is what a cancelled job waits for.
    if (Now() >= next_checkpoint_ || cancelled_at_.has_value()) BeginCheckpoint();
    return;
  }
  if (tasks_.Pending(Group::kCut) || tasks_.Pending(Group::kCheckpoint)) return;
  if (bsp() && !cycle_->task.cut_at_round()) {
    if (!cancelled_at_.has_value()) {
      WriteParts(cut_margin_);
    } else {
      CutCancelled();
    }
  } else if (cycle_->parts.size() == cycle_->writers) {
    const absl::Status whole = CheckParts(*cycle_, job().partitions(), bsp());
    if (whole.ok()) {
      CommitCycle(Group::kCheckpoint);
    } else {
      PeriodicFailed(absl::StrCat(cycle_->task.name(), " is given up: ", whole.message()));
    }
  } else {
    PeriodicFailed("a server is gone");
  }
}

void ActiveJob::CancelCheckpoint() {
  tasks_.Cancel(Group::kCheckpoint);
  tasks_.Cancel(Group::kCut);
  cycle_.reset();
}

void ActiveJob::BeginCheckpoint() {
  const uint64_t every_ms = job().checkpoint().every();
  next_checkpoint_ = every_ms > 0 ? Now() + absl::Milliseconds(every_ms) : absl::InfiniteDuration();
  StartCycle(false);
  if (bsp()) {
    ForEachOwner(Group::kCut, NewTask(Task::REPORT_DONE));
  } else {
    WriteParts(absl::nullopt);
  }
}

void ActiveJob::CutCancelled() {
  // A server that waits for a round that never comes does no other task meanwhile, so the cut is chosen before.
  if (!watch_.since.has_value()) {
    watch_.since = Now();
    watch_.rounds = rounds_applied_;
    watch_.again = Now() + kWatchInterval;
  } else if (rounds_applied_ > watch_.rounds) {
    watch_.since.reset();
    WriteParts(cut_margin_);
    return;
  }
  if (live_.lanes().empty() || Now() - *watch_.since >= kStandstill) {
    WriteParts(0);
  } else if (Now() >= watch_.again) {
    watch_.again = Now() + kWatchInterval;
    ForEachOwner(Group::kCut, NewTask(Task::REPORT_DONE));
  }
}

bool ActiveJob::CutIsOutOfReach() const {
  return phase_ == Phase::kTrain && cycle_.has_value() && cycle_->task.cut_at_round() &&
         cycle_->rounds > rounds_applied_ && live_.lanes().empty();
}

void ActiveJob::StartCycle(bool final) {
  cycle_.emplace();
  stored_.set_checkpoint_sequence(stored_.checkpoint_sequence() + 1);
  Persist();  // a name is used once, across restarts too
  cycle_->sequence = stored_.checkpoint_sequence();
  CheckpointTask* const task = &cycle_->task;
  task->set_dir(job().checkpoint().dir());
  task->set_name(CheckpointName(cycle_->sequence));
  task->set_final(final);
  const bool same_places = chain_.map_version == stored_.map_version();
  if (!final && same_places && chain_.deltas + 1 < job().checkpoint().full_every()) task->set_parent(chain_.parent);
  task->set_keep(job().checkpoint().keep() > 0 ? job().checkpoint().keep() : kDefaultKeep);
}

// Numbers go on after those that the directory holds of earlier jobs: the newest is the one with the highest.
void ActiveJob::TakeCheckpointDir(const TaskResult& result) {
  // A name that is taken by something damaged is taken.
  stored_.set_checkpoint_sequence(std::max(stored_.checkpoint_sequence(), result.highest_checkpoint()));
  if (stored_.checkpoint_sequence() >= kLastCheckpoint) {
    Fail(absl::StrCat("checkpoint.dir: ", job().checkpoint().dir(), " holds ",
                      CheckpointName(stored_.checkpoint_sequence()), ", after which there is no number: rename it"));
    return;
  }
  // Those before the newest one take its place should it turn out to be damaged.
  if (stored_.resume() != kLatest) return;
  if (result.checkpoints().empty()) {
    if (!result.message().empty()) warning_ = result.message();  // there are some, but all are damaged
    return;
  }
  const std::string& newest = *result.checkpoints().rbegin();
  if (newest < stored_.restore_from()) return;
  stored_.set_restore_from(newest);
  *stored_.mutable_checkpoints() = result.checkpoints();
}

void ActiveJob::WriteParts(absl::optional<uint64_t> cut_margin) {
  if (cut_margin.has_value()) {
    cycle_->rounds = rounds_applied_ + *cut_margin;
    cycle_->task.set_cut_round(cycle_->rounds);
    cycle_->task.set_cut_at_round(true);
  } else if (bsp()) {
    cycle_->rounds = rounds_applied_;
  }
  Task task = NewTask(Task::WRITE_PART);
  *task.mutable_checkpoint() = cycle_->task;
  cycle_->writers = partitions_.map().Owners().size();
  ForEachOwner(cycle_->task.final() ? Group::kFinal : Group::kCheckpoint, task);
}

void ActiveJob::TakePart(const Process& process, const TaskResult& result) {
  if (!cycle_.has_value()) return;
  PartInfo part;
  if (part.ParseFromString(result.part())) {
    cycle_->parts[process.id] = std::move(part);
    return;
  }
  const std::string why = absl::StrCat(process.Title(), ": its part of checkpoint ", cycle_->task.name(),
                                       " is described by bytes that cannot be parsed");
  if (cycle_->task.final()) {
    Fail(why);
  } else {
    PeriodicFailed(why);
  }
}

void ActiveJob::TakeDigests(const TaskResult& result) {
  if (!cycle_.has_value()) return;
  for (const TableDigest& digest : result.digests()) {
    TableDigest& sum = cycle_->digests[digest.table()];
    sum.set_table(digest.table());
    sum.set_sum(sum.sum() + digest.sum());
    sum.set_rows(sum.rows() + digest.rows());
  }
}

std::string ActiveJob::SerializedManifest() const {
  Manifest manifest;
  manifest.set_format_version(kManifestVersion);
  *manifest.mutable_job() = job();
  manifest.set_job_digest(JobDigest(job()));
  *manifest.mutable_plan() = stored_.plan();
  for (const auto& [server, part] : cycle_->parts) *manifest.add_parts() = part;
  if (cycle_->task.final()) {
    for (const auto& [table, digest] : cycle_->digests) *manifest.add_digests() = digest;
  }
  manifest.set_final(cycle_->task.final());
  manifest.set_run(run());
  manifest.set_rounds_applied(cycle_->rounds);
  manifest.set_created(absl::FormatTime(absl::RFC3339_sec, absl::Now(), absl::UTCTimeZone()));
  manifest.set_sequence(cycle_->sequence);
  manifest.set_parent(cycle_->task.parent());
  return manifest.SerializeAsString();
}

void ActiveJob::CommitCycle(Group group) {
  Task task = NewTask(Task::COMMIT_CHECKPOINT);
  *task.mutable_checkpoint() = cycle_->task;
  task.mutable_checkpoint()->set_manifest(SerializedManifest());
  tasks_.Add(group, cycle_->parts.begin()->first, std::move(task));
}

void ActiveJob::TakeCommit(const TaskResult& result) {
  if (!cycle_.has_value()) return;
  stored_.set_checkpoint(result.path());
  stored_.add_checkpoints(result.path());
  while (stored_.checkpoints_size() > static_cast<int>(cycle_->task.keep())) {
    stored_.mutable_checkpoints()->erase(stored_.mutable_checkpoints()->begin());
  }
  Persist();
  Log(absl::StrCat("checkpoint ", result.path(), cycle_->task.final() ? " (final)" : ""));
  warning_.clear();
  cut_attempts_ = 0;
  chain_.failed = 0;
  chain_.deltas = cycle_->task.parent().empty() ? 0 : chain_.deltas + 1;
  chain_.parent = cycle_->task.name();
  chain_.map_version = stored_.map_version();
  Bump();
  if (cycle_->task.final()) {
    phase_ = Phase::kReports;  // keeps the cycle: its digests are part of the final status
    return;
  }
  cycle_.reset();
  if (cancelled_at_.has_value()) EndCancelled("");
}

void ActiveJob::PeriodicFailed(const std::string& why) {
  const bool cut = cycle_.has_value() && cycle_->task.cut_at_round();
  CancelCheckpoint();
  if (cut && ++cut_attempts_ < kCutAttempts) {
    cut_margin_ *= kCutGrowth;
    next_checkpoint_ = Now() + context_.heartbeat;
    Log(absl::StrCat("checkpoint is tried again: ", why));
    return;
  }
  if (cancelled_at_.has_value()) {
    EndCancelled(absl::StrCat("its checkpoint failed: ", why));
    return;
  }
  cut_attempts_ = 0;
  cut_margin_ = 2;
  // Once may be a full disk, on which a delta has the better chance; twice may be the parent itself.
  if (++chain_.failed > 1) chain_.parent.clear();
  warning_ = absl::StrCat("the last periodic checkpoint failed: ", why);
  Log(warning_);
}

}  // namespace shoal
