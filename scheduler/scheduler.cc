#include "scheduler/scheduler.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "scheduler/core.h"
#include "scheduler/state/memory_state_store.h"
#include "scheduler/state/sqlite_state_store.h"

namespace shoal {

// A lock around the core. Answers run after it is released, so they may call the scheduler again. Thread-safe.
class Scheduler::Impl {
 public:
  Impl(const SchedulerOptions& options, std::unique_ptr<DurableState> state) : core_(options, std::move(state)) {}

  template <typename Call>
  void Run(const Call& call) {
    std::vector<std::function<void()>> answers;
    {
      MutexLock lock(&mu_);
      call(&core_);
      answers = core_.TakeAnswers();
    }
    for (const std::function<void()>& answer : answers) answer();
  }

 private:
  Mutex mu_;
  SchedulerCore core_ ABSL_GUARDED_BY(mu_);
};

absl::StatusOr<std::unique_ptr<Scheduler>> Scheduler::Create(const SchedulerOptions& options) {
  if (options.heartbeat <= absl::ZeroDuration() || options.deadline < 2 * options.heartbeat) {
    return absl::InvalidArgumentError(absl::StrCat("deadline: ", absl::FormatDuration(options.deadline),
                                                   ", must be at least twice the heartbeat, ",
                                                   absl::FormatDuration(options.heartbeat)));
  }
  std::unique_ptr<StateStore> store;
  if (options.state_path.empty()) {
    store = std::make_unique<MemoryStateStore>();
  } else {
    SHOAL_ASSIGN_OR_RETURN(store, SqliteStateStore::Open(options.state_path));
  }
  SHOAL_ASSIGN_OR_RETURN(std::unique_ptr<DurableState> state, DurableState::Open(std::move(store)));
  auto impl = std::make_unique<Impl>(options, std::move(state));
  impl->Run([](SchedulerCore* core) { core->Resume(); });
  return std::unique_ptr<Scheduler>(new Scheduler(std::move(impl)));
}

Scheduler::Scheduler(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Scheduler::~Scheduler() {
  impl_->Run([](SchedulerCore* core) { core->Close(); });
}

void Scheduler::Register(const RegisterRequest& request, Done<RegisterReply> done) {
  impl_->Run([&](SchedulerCore* core) { core->Register(request, std::move(done)); });
}
void Scheduler::Heartbeat(const HeartbeatRequest& request, Done<HeartbeatReply> done) {
  impl_->Run([&](SchedulerCore* core) { core->Heartbeat(request, std::move(done)); });
}
void Scheduler::Watch(const WatchRequest& request, Done<ClusterView> done) {
  impl_->Run([&](SchedulerCore* core) { core->Watch(request, std::move(done)); });
}
void Scheduler::NextWork(const NextWorkRequest& request, Done<NextWorkReply> done) {
  impl_->Run([&](SchedulerCore* core) { core->NextWork(request, std::move(done)); });
}
void Scheduler::TaskDone(const TaskResult& request, Done<Empty> done) {
  impl_->Run([&](SchedulerCore* core) { core->TaskDone(request, std::move(done)); });
}
void Scheduler::Leave(const LeaveRequest& request, Done<Empty> done) {
  impl_->Run([&](SchedulerCore* core) { core->Leave(request, std::move(done)); });
}
void Scheduler::Drain(const DrainRequest& request, Done<Empty> done) {
  impl_->Run([&](SchedulerCore* core) { core->Drain(request, std::move(done)); });
}
void Scheduler::GetJobConfig(const JobRef& request, Done<JobConfig> done) {
  impl_->Run([&](SchedulerCore* core) { core->GetJobConfig(request, std::move(done)); });
}
void Scheduler::Submit(const SubmitRequest& request, Done<SubmitReply> done) {
  impl_->Run([&](SchedulerCore* core) { core->Submit(request, std::move(done)); });
}
void Scheduler::ListJobs(const Empty& request, Done<JobList> done) {
  impl_->Run([&](SchedulerCore* core) { core->ListJobs(request, std::move(done)); });
}
void Scheduler::GetJob(const GetJobRequest& request, Done<JobStatus> done) {
  impl_->Run([&](SchedulerCore* core) { core->GetJob(request, std::move(done)); });
}
void Scheduler::Cancel(const JobRef& request, Done<Empty> done) {
  impl_->Run([&](SchedulerCore* core) { core->Cancel(request, std::move(done)); });
}
void Scheduler::Logs(const JobRef& request, Done<JobLogs> done) {
  impl_->Run([&](SchedulerCore* core) { core->Logs(request, std::move(done)); });
}
void Scheduler::Status(const Empty& request, Done<ClusterStatus> done) {
  impl_->Run([&](SchedulerCore* core) { core->Status(request, std::move(done)); });
}
void Scheduler::Tick() {
  impl_->Run([](SchedulerCore* core) { core->Tick(); });
}
void Scheduler::Excuse(absl::Duration pause) {
  impl_->Run([&](SchedulerCore* core) { core->Excuse(pause); });
}
void Scheduler::ShutdownCluster() {
  impl_->Run([](SchedulerCore* core) { core->ShutdownCluster(); });
}

}  // namespace shoal
