#include "server/agent.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/machine.h"
#include "base/status_macros.h"
#include "proto/cluster_member.h"
#include "proto/job/resume_check.h"
#include "proto/protocol_version.h"
#include "server/checkpoint/checkpoint.h"

namespace shoal {
namespace {

constexpr absl::Duration kCallTimeout = absl::Seconds(5);
// How long a part may wait for the round at which it is to be cut.
constexpr absl::Duration kCutTimeout = absl::Seconds(60);
// How long a task may wait for the view that tells about its job.
constexpr absl::Duration kViewTimeout = absl::Seconds(5);

// Tasks that may take minutes must not hold up one another, nor the short ones. What makes and drops a job keeps its
// order.
enum TaskQueue : size_t { kShortTasks, kCheckpointTasks, kJobTasks, kMoveTasks, kTaskQueues };

size_t QueueOf(const Task& task) {
  switch (task.kind()) {
    case Task::WRITE_PART:
    case Task::COMMIT_CHECKPOINT:
      return kCheckpointTasks;
    case Task::PREPARE_JOB:
    case Task::RESTORE_PARTITIONS:
    case Task::DROP_JOB:
      return kJobTasks;
    case Task::MOVE_PARTITIONS:
    case Task::ADD_BACKUP:
      return kMoveTasks;
    default:
      return kShortTasks;
  }
}

RegisterRequest Registration(const ServerAgentOptions& options) {
  RegisterRequest request;
  request.set_name(options.name);
  request.set_role(SERVER);
  request.set_address(options.address);
  request.set_device("cpu");
  request.set_cores(UsableCores());
  request.set_memory_bytes(MemoryBytes());
  request.set_protocol_version(kProtocolVersion);
  return request;
}

}  // namespace

class ServerAgent::Impl {
 public:
  explicit Impl(const ServerAgentOptions& options)
      : server_(*options.server),
        scheduler_(*options.scheduler),
        member_(options.scheduler, Registration(options), MakeCallbacks()) {}

  ClusterMember& member() { return member_; }

 private:
  ClusterMember::Callbacks MakeCallbacks() {
    ClusterMember::Callbacks callbacks;
    callbacks.on_view = [this](const ClusterView& view) { server_.UpdateView(view, member_.identity().process()); };
    callbacks.task_queues = kTaskQueues;
    callbacks.queue_of = QueueOf;
    callbacks.do_task = [this](const Task& task, TaskResult* result) { return DoTask(task, result); };
    callbacks.collect = [this] {
      HeartbeatRequest request;
      for (uint64_t job : server_.Jobs()) *request.add_server_jobs() = server_.Report(job);
      for (Unreachable& server : server_.UnreachableServers()) *request.add_unreachable() = std::move(server);
      return request;
    };
    callbacks.tick = [this] { server_.Tick(); };
    return callbacks;
  }

  absl::Status DoTask(const Task& task, TaskResult* result);
  // Waits a little for the view that tells about the job.
  absl::StatusOr<JobView> ViewOf(uint64_t id);
  // PREPARE_JOB and RESTORE_PARTITIONS.
  absl::Status Prepare(const Task& task);

  ParameterServer& server_;
  SchedulerClient& scheduler_;
  ClusterMember member_;
};

absl::StatusOr<JobView> ServerAgent::Impl::ViewOf(uint64_t id) {
  const Clock& clock = Clock::Steady();
  const absl::Duration end = clock.Now() + kViewTimeout;
  for (;;) {
    const ClusterView view = member_.view();
    for (const JobView& job : view.jobs()) {
      if (job.job() == id) return job;
    }
    if (clock.Now() >= end) return absl::UnavailableError(absl::StrCat("job ", id, " is not in the view"));
    member_.AwaitView(view.version(), end - clock.Now());
  }
}

absl::Status ServerAgent::Impl::Prepare(const Task& task) {
  JobRef ref;
  ref.set_job(task.job());
  SHOAL_ASSIGN_OR_RETURN(const JobConfig config, scheduler_.GetJobConfig(ref, kCallTimeout));
  SHOAL_ASSIGN_OR_RETURN(const JobView view, ViewOf(task.job()));
  const uint64_t self = member_.identity().process();
  if (task.kind() == Task::PREPARE_JOB && !task.restore_from().empty()) {
    std::string dir;
    SHOAL_ASSIGN_OR_RETURN(const Manifest manifest, ReadManifest(task.restore_from(), &dir));
    SHOAL_RETURN_IF_ERROR(CheckResumes(manifest, config.job(), &config.plan()));
  }
  if (task.kind() == Task::PREPARE_JOB) return server_.PrepareJob(config, view, self, task.restore_from());
  if (view.run() != task.run()) {
    return absl::FailedPreconditionError(
        absl::StrCat("job ", task.job(), " run ", task.run(), ": the cluster is at run ", view.run()));
  }
  return server_.RestorePartitions(config, view, self, {task.partitions().begin(), task.partitions().end()},
                                   task.restore_from());
}

absl::Status ServerAgent::Impl::DoTask(const Task& task, TaskResult* result) {
  switch (task.kind()) {
    case Task::CHECK_CHECKPOINT_DIR: {
      const std::string& dir = task.job_config().checkpoint().dir();
      SHOAL_RETURN_IF_ERROR(CheckWritable(dir));
      // The scheduler numbers new checkpoints on from the highest one that is there.
      SHOAL_ASSIGN_OR_RETURN(const uint64_t highest, HighestCheckpointNumber(dir));
      result->set_highest_checkpoint(highest);
      // A job that goes on takes the newest complete one.
      SHOAL_ASSIGN_OR_RETURN(auto checkpoints, ListCheckpoints(dir));
      for (const auto& [path, manifest] : checkpoints) result->add_checkpoints(path);
      SHOAL_ASSIGN_OR_RETURN(const auto damaged, ListDamaged(dir));
      if (!damaged.empty()) {
        result->set_message(absl::StrCat("checkpoint.dir: ", damaged.size(), " that cannot be read are passed over: ",
                                         damaged.back().first, ": ", damaged.back().second.message()));
      }
      return absl::OkStatus();
    }
    case Task::PREPARE_JOB:
    case Task::RESTORE_PARTITIONS:
      SHOAL_RETURN_IF_ERROR(Prepare(task));
      result->set_message(server_.TakeLoadNote(task.job()));
      return absl::OkStatus();
    case Task::MOVE_PARTITIONS:
    case Task::ADD_BACKUP: {
      SHOAL_RETURN_IF_ERROR(task.kind() == Task::ADD_BACKUP ? server_.AddBackup(task, result->mutable_message())
                                                            : server_.MovePartitions(task, result->mutable_message()));
      *result->mutable_partitions() = task.partitions();
      return absl::OkStatus();
    }
    case Task::REPORT_DONE: {
      SHOAL_ASSIGN_OR_RETURN(std::vector<PartitionDone> done, server_.ReportDone(task.job()));
      for (PartitionDone& partition : done) *result->add_done() = std::move(partition);
      *result->mutable_report() = server_.Report(task.job());
      return absl::OkStatus();
    }
    case Task::WRITE_PART: {
      SHOAL_ASSIGN_OR_RETURN(PartInfo part, server_.WritePart(task.job(), task.checkpoint(), kCutTimeout));
      result->set_part(part.SerializeAsString());
      return absl::OkStatus();
    }
    case Task::COMMIT_CHECKPOINT: {
      Manifest manifest;
      if (!manifest.ParseFromString(task.checkpoint().manifest())) {
        return absl::InvalidArgumentError("checkpoint.manifest: cannot be parsed");
      }
      SHOAL_ASSIGN_OR_RETURN(
          *result->mutable_path(),
          CommitCheckpoint(task.checkpoint().dir(), task.checkpoint().name(), manifest, task.checkpoint().keep()));
      return absl::OkStatus();
    }
    case Task::DIGEST: {
      SHOAL_ASSIGN_OR_RETURN(std::vector<TableDigest> digests, server_.Digest(task.job()));
      for (TableDigest& digest : digests) *result->add_digests() = std::move(digest);
      *result->mutable_report() = server_.Report(task.job());
      return absl::OkStatus();
    }
    case Task::DROP_JOB:
      server_.DropJob(task.job());
      return absl::OkStatus();
    default:
      return absl::UnimplementedError(absl::StrCat("task kind ", task.kind(), " is not for servers"));
  }
}

absl::StatusOr<std::unique_ptr<ServerAgent>> ServerAgent::Start(const ServerAgentOptions& options,
                                                                absl::Duration timeout) {
  auto impl = std::make_unique<Impl>(options);
  SHOAL_RETURN_IF_ERROR(impl->member().Start(timeout));
  return std::unique_ptr<ServerAgent>(new ServerAgent(std::move(impl)));
}

ServerAgent::ServerAgent(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ServerAgent::~ServerAgent() = default;
absl::Status ServerAgent::Leave(absl::Duration grace) {
  const absl::Status status = impl_->member().Leave(grace);
  impl_->member().Stop();
  return status;
}
void ServerAgent::Kill() { impl_->member().Stop(); }
bool ServerAgent::Ended(absl::Status* reason) const { return impl_->member().Ended(reason); }
const std::string& ServerAgent::name() const { return impl_->member().name(); }
uint64_t ServerAgent::process() const { return impl_->member().identity().process(); }

}  // namespace shoal
