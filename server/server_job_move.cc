// The sending side of copies: partitions that move, and partitions that get a backup.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/side_by_side.h"
#include "base/status_macros.h"
#include "server/server_job.h"

namespace shoal {
namespace {

// Changes are sent again and again while the partition is served, until they are this few or it has been tried this
// often: then the rest is sent while it is frozen.
constexpr uint64_t kFewBytes = 256 << 10;
constexpr int kMostRounds = 6;

// While one partition is on its way the next is made into an image and the one before applied.
template <typename Copies, typename Work>
absl::Status ForEachCopy(const ParameterServerOptions& options, Copies* copies, const Work& work) {
  return SideBySide(
      copies->size(), options.copies_at_once, options.copy_bytes,
      [&](size_t i) { return (*copies)[i].partition->Usage().bytes(); }, [&](size_t i) { return work(i); });
}

}  // namespace

struct ServerJob::Copying {
  std::shared_ptr<Partition> partition;
  TrackerId tracker = kNoTracker;
  uint64_t link = 0;
  uint64_t version = 0;  // that the copy has
  std::unique_ptr<BulkCopy> copy;
  // The target is the partition's backup, which is kept in step as it is; null: no.
  std::shared_ptr<ReplicaStream> stream;
};

absl::StatusOr<ReplicaSender> ServerJob::SenderTo(const ServerAddress& target) {
  if (!options_.connect) return absl::FailedPreconditionError("this server cannot reach other servers");
  if (target.process() == self_) return absl::InvalidArgumentError("target: this server itself");
  ReplicaSender sender{job_, run_, self_, target.process(), nullptr, nullptr};
  sender.map_version = [weak = weak_from_this()]() -> uint64_t {
    const std::shared_ptr<const ServerJob> job = weak.lock();
    return job == nullptr ? 0 : job->Map()->version;
  };
  {
    MutexLock lock(&mu_);
    const auto it = clients_.find(target.process());
    if (it != clients_.end()) sender.client = it->second;
  }
  if (sender.client == nullptr) {
    SHOAL_ASSIGN_OR_RETURN(std::unique_ptr<ReplicaClient> client, options_.connect(target));
    sender.client = std::move(client);
    MutexLock lock(&mu_);
    clients_[target.process()] = sender.client;
  }
  return sender;
}

absl::Status ServerJob::KeepGoing(uint64_t task) const {
  MutexLock lock(&mu_);
  if (dropped_) return absl::CancelledError(absl::StrCat("job ", job_, " was dropped"));
  if (newest_run_ > run_) return absl::CancelledError(absl::StrCat("run ", run_, " has ended"));
  if (tasks_ != nullptr && tasks_->count(task) == 0) return absl::AbortedError("the task is no longer listed");
  return absl::OkStatus();
}

absl::StatusOr<std::vector<ServerJob::Copying>> ServerJob::PlanCopies(uint64_t task,
                                                                      const std::vector<uint32_t>& partitions,
                                                                      const ReplicaSender& sender) {
  const std::shared_ptr<const OwnerMap> map = Map();
  BulkCopy::Options options;
  options.patience = options_.copy_patience;
  options.keep_going = [this, task] { return KeepGoing(task); };
  options.config = [this] { return config_; };
  std::vector<Copying> copies;
  for (uint32_t p : partitions) {
    if (p >= schema_->partitions) {
      return absl::InvalidArgumentError(absl::StrCat("partitions: ", p, ", must be below ", schema_->partitions));
    }
    const OwnerMap::Place& place = map->at[p];
    if (place.role != PartitionRole::kServing) {
      return absl::FailedPreconditionError(
          absl::StrCat("partition ", p, ": not served here under map version ", map->version));
    }
    copies.emplace_back();
    copies.back().partition = place.partition;
    if (place.stream != nullptr && place.stream->target() == sender.target) {
      copies.back().stream = place.stream;
      continue;
    }
    copies.back().link = next_link_++;
    copies.back().copy = std::make_unique<BulkCopy>(sender, p, copies.back().link, options);
  }
  return copies;
}

absl::Status ServerJob::SendAll(Copying* copying, bool promotable) {
  if (copying->stream != nullptr) return absl::OkStatus();
  uint64_t rounds = 0;
  {
    MutexLock lock(&mu_);
    rounds = schema_->sync == SyncMode::kBsp ? rounds_.applied() : 0;
  }
  uint64_t bytes = 0;
  {
    const PartitionImage image = copying->partition->TakeFull(rounds, &copying->tracker);
    copying->version = image.version;
    SHOAL_RETURN_IF_ERROR(copying->copy->Send(image.bytes, image.version, /*full=*/true, promotable, nullptr));
    bytes = image.bytes.size();
  }
  for (int round = 0; round < kMostRounds && bytes > kFewBytes; ++round) {
    const uint64_t before = copying->copy->sent_bytes();
    SHOAL_RETURN_IF_ERROR(SendChanges(copying, promotable, nullptr));
    bytes = copying->copy->sent_bytes() - before;
  }
  return absl::OkStatus();
}

absl::Status ServerJob::SendChanges(Copying* copying, bool promotable, const HeldRounds* held) {
  if (copying->stream != nullptr) return AwaitStep(copying->stream, copying->partition.get());
  const uint64_t rounds = held == nullptr ? 0 : held->rounds_applied();
  const PartitionImage image = copying->partition->TakeDelta(copying->tracker, rounds);
  SHOAL_RETURN_IF_ERROR(copying->copy->Send(image.bytes, image.version, /*full=*/false, promotable, held));
  copying->version = image.version;
  return absl::OkStatus();
}

void ServerJob::EndCopy(const Copying& copying, bool forget) {
  if (copying.tracker == kNoTracker) return;  // it has not begun
  copying.partition->Untrack(copying.tracker);
  if (forget) copying.copy->Forget();
}

absl::Status ServerJob::Freeze(uint64_t task, const std::vector<Copying>& copies, std::vector<HeldRounds>* held) {
  ReleasedList released;
  absl::Status status;
  {
    MutexLock lock(&mu_);
    auto next = std::make_shared<OwnerMap>(*map_);
    for (const Copying& copying : copies) {
      OwnerMap::Place& place = next->at[copying.partition->id()];
      if (place.partition != copying.partition || place.role != PartitionRole::kServing) {
        status = absl::FailedPreconditionError(absl::StrCat(
            "partition ", copying.partition->id(), ": no longer served here under map version ", map_->version));
        break;
      }
      place.role = PartitionRole::kFrozen;
      place.move_task = task;
    }
    if (status.ok()) {
      SetMap(std::move(next), &released);
      for (const Copying& copying : copies) {
        if (schema_->sync == SyncMode::kBsp) held->push_back(rounds_.Leave(copying.partition->id()));
      }
      Release(&released);
    }
  }
  Answer(&released);
  return status;
}

void ServerJob::Thaw(uint64_t task) {
  ReleasedList released;
  {
    MutexLock lock(&mu_);
    auto next = std::make_shared<OwnerMap>(*map_);
    for (OwnerMap::Place& place : next->at) {
      if (place.role != PartitionRole::kFrozen || place.move_task != task) continue;
      place.role = PartitionRole::kServing;
      place.move_task = 0;
    }
    SetMap(std::move(next), &released);
    Proceed(&released);
  }
  Answer(&released);
}

absl::Status ServerJob::Move(uint64_t task, const std::vector<uint32_t>& partitions, const ServerAddress& target,
                             std::string* report) {
  const Clock& clock = Clock::Steady();
  const absl::Duration begin = clock.Now();
  SHOAL_ASSIGN_OR_RETURN(const ReplicaSender sender, SenderTo(target));
  SHOAL_ASSIGN_OR_RETURN(std::vector<Copying> copies, PlanCopies(task, partitions, sender));
  absl::Status status =
      ForEachCopy(options_, &copies, [&](size_t i) { return SendAll(&copies[i], /*promotable=*/false); });
  const absl::Duration frozen = clock.Now();
  std::vector<HeldRounds> held;
  if (status.ok()) {
    status = Freeze(task, copies, &held);
    if (status.ok()) {
      status = ForEachCopy(options_, &copies, [&](size_t i) {
        return SendChanges(&copies[i], /*promotable=*/true, held.empty() ? nullptr : &held[i]);
      });
    }
    // A view may have served them again meanwhile: then the copies are behind.
    if (status.ok()) status = KeepGoing(task);
    if (!status.ok()) Thaw(task);
  }
  for (const Copying& copying : copies) EndCopy(copying, /*forget=*/!status.ok());
  if (!status.ok()) return status;
  uint64_t bytes = 0;
  for (const Copying& copying : copies) bytes += copying.copy == nullptr ? 0 : copying.copy->sent_bytes();
  *report = absl::StrCat(copies.size(), " partitions, ", bytes, " bytes copied in ",
                         absl::FormatDuration(absl::Trunc(frozen - begin, absl::Microseconds(10))), ", handed over in ",
                         absl::FormatDuration(absl::Trunc(clock.Now() - frozen, absl::Microseconds(10))));
  return absl::OkStatus();
}

absl::Status ServerJob::AwaitStep(const std::shared_ptr<ReplicaStream>& stream, Partition* partition) const {
  struct Waiting {
    Mutex mu;
    CondVar told;
    bool done ABSL_GUARDED_BY(mu) = false;
    absl::Status status ABSL_GUARDED_BY(mu) = absl::DeadlineExceededError("the backup has not answered");
  };
  auto waiting = std::make_shared<Waiting>();
  stream->Await({{partition->id(), partition->version()}}, [waiting](absl::Status told) {
    MutexLock lock(&waiting->mu);
    waiting->status = std::move(told);
    waiting->done = true;
    waiting->told.SignalAll();
  });
  const absl::Duration end = Clock::Steady().Now() + options_.copy_patience;
  MutexLock lock(&waiting->mu);
  while (!waiting->done && Clock::Steady().Now() < end) {
    waiting->told.WaitFor(&waiting->mu, end - Clock::Steady().Now());
  }
  return waiting->status;
}

absl::Status ServerJob::Follow(uint64_t task, const Copying& copying, const ReplicaSender& sender) {
  const uint32_t p = copying.partition->id();
  std::shared_ptr<ReplicaStream> stream = copying.stream;
  ReleasedList released;
  absl::Status status;
  {
    MutexLock lock(&mu_);
    if (stream == nullptr) {
      std::shared_ptr<ReplicaStream>& known = streams_[sender.target];
      if (known == nullptr) {
        const auto next_link = [weak = weak_from_this()]() -> uint64_t {
          const std::shared_ptr<ServerJob> job = weak.lock();
          return job == nullptr ? 0 : job->next_link_++;
        };
        known = std::make_shared<ReplicaStream>(sender, next_link, options_.clock, options_.backup_patience);
      }
      stream = known;
    }
    auto next = std::make_shared<OwnerMap>(*map_);
    OwnerMap::Place& place = next->at[p];
    if (place.partition != copying.partition || place.role != PartitionRole::kServing || dropped_) {
      status = absl::FailedPreconditionError(
          absl::StrCat("partition ", p, ": no longer served here under map version ", map_->version));
    } else {
      // Before anybody can wait for it.
      if (copying.stream == nullptr) {
        stream->Attach(copying.partition, copying.tracker, copying.link, copying.version, copying.copy->room());
      }
      place.stream = stream;
      place.backup_task = task;
      place.backup_listed = place.backup == sender.target;
      SetMap(std::move(next), &released);
    }
  }
  Answer(&released);
  if (!status.ok()) {
    EndCopy(copying, /*forget=*/true);
    return status;
  }
  // Whoever pushes from here on finds the stream; what was pushed before is waited for here.
  copying.partition->Mirror(true);
  return AwaitStep(stream, copying.partition.get());
}

void ServerJob::AddUnreachable(std::map<uint64_t, Unreachable>* out) const {
  std::vector<std::shared_ptr<ReplicaStream>> streams;
  {
    MutexLock lock(&mu_);
    for (const auto& [process, stream] : streams_) streams.push_back(stream);
  }
  for (const std::shared_ptr<ReplicaStream>& stream : streams) {
    const absl::optional<ReplicaStream::Silence> silence = stream->silence();
    if (!silence.has_value()) continue;
    const int64_t seconds = absl::ToInt64Seconds(options_.clock->Now() - silence->since);
    if (seconds < 1) continue;
    Unreachable& entry = (*out)[stream->target()];
    entry.set_server(stream->target());
    entry.set_seconds(std::max(entry.seconds(), static_cast<uint32_t>(seconds)));
    entry.set_error(silence->error);
  }
}

absl::Status ServerJob::AddBackup(uint64_t task, const std::vector<uint32_t>& partitions, const ServerAddress& target,
                                  std::string* report) {
  if (schema_->sync == SyncMode::kBsp) {
    return absl::FailedPreconditionError("replicas: bsp jobs have none, they recover by rollback");
  }
  const absl::Duration begin = Clock::Steady().Now();
  SHOAL_ASSIGN_OR_RETURN(const ReplicaSender sender, SenderTo(target));
  SHOAL_ASSIGN_OR_RETURN(std::vector<Copying> copies, PlanCopies(task, partitions, sender));
  SHOAL_RETURN_IF_ERROR(ForEachCopy(options_, &copies, [&](size_t i) {
    absl::Status sent = SendAll(&copies[i], /*promotable=*/true);
    if (sent.ok() && copies[i].copy != nullptr) sent = SendChanges(&copies[i], /*promotable=*/true, nullptr);
    if (!sent.ok()) EndCopy(copies[i], /*forget=*/true);
    SHOAL_RETURN_IF_ERROR(sent);
    // What is followed by now is left when a map does not name the backup, or the task is no longer listed.
    return Follow(task, copies[i], sender);
  }));
  uint64_t bytes = 0;
  for (const Copying& copying : copies) bytes += copying.copy == nullptr ? 0 : copying.copy->sent_bytes();
  *report = absl::StrCat(partitions.size(), " partitions, ", bytes, " bytes copied in ",
                         absl::FormatDuration(absl::Trunc(Clock::Steady().Now() - begin, absl::Microseconds(10))));
  return absl::OkStatus();
}

}  // namespace shoal
