// Periodic and final checkpoints: parts of all servers, then the manifest.
#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "proto/job/job_file.h"
#include "scheduler/jobs/active_job.h"

namespace shoal {
namespace {

constexpr char kNamePrefix[] = "ckpt-";
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
    if (Now() >= next_checkpoint_) BeginCheckpoint();
    return;
  }
  if (GroupPending(Group::kCut) || GroupPending(Group::kCheckpoint)) return;
  if (bsp() && !cycle_->task.cut_at_round()) {
    if (!cancelled_at_.has_value()) {
      WriteParts(cut_margin_);
    } else {
      CutCancelled();
    }
  } else if (cycle_->parts.size() == static_cast<size_t>(stored_.servers_size())) {
    CommitCycle(Group::kCheckpoint);
  } else {
    PeriodicFailed("a server is gone");
  }
}

void ActiveJob::BeginCheckpoint() {
  next_checkpoint_ = Now() + absl::Milliseconds(job().checkpoint().every());
  StartCycle(false);
  if (bsp()) {
    ForEachServer(Group::kCut, NewTask(Task::REPORT_DONE));
  } else {
    WriteParts(absl::nullopt);
  }
}

void ActiveJob::CutCancelled() {
  // A server that waits for a round that never comes does no other task meanwhile, so the cut is chosen before.
  if (!watched_since_.has_value()) {
    watched_since_ = Now();
    watched_rounds_ = rounds_applied_;
    watch_again_ = Now() + kWatchInterval;
  } else if (rounds_applied_ > watched_rounds_) {
    watched_since_.reset();
    WriteParts(cut_margin_);
    return;
  }
  if (live_.lanes().empty() || Now() - *watched_since_ >= kStandstill) {
    WriteParts(0);
  } else if (Now() >= watch_again_) {
    watch_again_ = Now() + kWatchInterval;
    ForEachServer(Group::kCut, NewTask(Task::REPORT_DONE));
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
  task->set_name(absl::StrFormat("%s%08d", kNamePrefix, cycle_->sequence));
  task->set_final(final);
  if (!final && !parent_.empty() && deltas_ + 1 < job().checkpoint().full_every()) task->set_parent(parent_);
  task->set_keep(job().checkpoint().keep() > 0 ? job().checkpoint().keep() : kDefaultKeep);
}

void ActiveJob::TakeCheckpointDir(const TaskResult& result) {
  absl::string_view name = result.path();
  name = name.substr(name.rfind('/') + 1);
  uint64_t sequence = 0;
  if (!absl::ConsumePrefix(&name, kNamePrefix) || !absl::SimpleAtoi(name, &sequence)) return;
  stored_.set_checkpoint_sequence(std::max<uint64_t>(stored_.checkpoint_sequence(), sequence));
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
  ForEachServer(cycle_->task.final() ? Group::kFinal : Group::kCheckpoint, task);
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
  for (const ServerAddress& server : stored_.servers()) {
    const auto part = cycle_->parts.find(server.process());
    if (part != cycle_->parts.end()) *manifest.add_parts() = part->second;
  }
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
  AddTask(group, stored_.servers(0).process(), std::move(task));
}

void ActiveJob::TakeCommit(const TaskResult& result) {
  if (!cycle_.has_value()) return;
  stored_.set_checkpoint(result.path());
  Persist();
  Log(absl::StrCat("checkpoint ", result.path(), cycle_->task.final() ? " (final)" : ""));
  warning_.clear();
  cut_attempts_ = 0;
  failed_checkpoints_ = 0;
  deltas_ = cycle_->task.parent().empty() ? 0 : deltas_ + 1;
  parent_ = cycle_->task.name();
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
  CancelGroup(Group::kCheckpoint);
  CancelGroup(Group::kCut);
  cycle_.reset();
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
  if (++failed_checkpoints_ > 1) parent_.clear();
  warning_ = absl::StrCat("the last periodic checkpoint failed: ", why);
  Log(warning_);
}

}  // namespace shoal
