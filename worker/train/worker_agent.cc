#include "worker/train/worker_agent.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/machine.h"
#include "base/status_macros.h"
#include "proto/cluster_member.h"
#include "proto/protocol_version.h"
#include "worker/train/fingerprint.h"
#include "worker/train/job_context.h"
#include "worker/train/lane.h"
#include "worker/train/progress.h"
#include "worker/train/worker_tasks.h"

namespace shoal {
namespace {

constexpr absl::Duration kCallTimeout = absl::Seconds(5);
constexpr absl::Duration kDrainTimeout = absl::Milliseconds(500);
// A worker that leaves does not wait for a scheduler that hangs: it is missed soon enough.
constexpr absl::Duration kGoodbyeTimeout = absl::Seconds(1);
constexpr absl::Duration kContextWait = absl::Milliseconds(200);
// Between questions to a scheduler that cannot be reached: a worker that is told to stop does so within it.
constexpr absl::Duration kLongestNap = absl::Milliseconds(300);

// A job that waits for servers has no owners; its map is as good as the one before until it has some.
bool HasNewerMap(const JobView& view, uint64_t version) {
  return view.map_version() > version && view.owner_size() > 0;
}

RegisterRequest Registration(const WorkerOptions& options) {
  RegisterRequest request;
  request.set_name(options.name);
  request.set_role(WORKER);
  request.set_device("cpu");
  request.set_cores(UsableCores());
  request.set_memory_bytes(MemoryBytes());
  request.set_protocol_version(kProtocolVersion);
  request.set_threads(options.threads);
  request.set_fingerprint(ComputeFingerprint());
  return request;
}

}  // namespace

class WorkerAgent::Impl : public LaneHost {
 public:
  explicit Impl(const WorkerOptions& options)
      : options_(options),
        progress_(options.threads),
        reach_(options.clock),
        member_(options.scheduler, Registration(options), MakeCallbacks()) {}

  ~Impl() override { Kill(); }

  absl::Status Start(absl::Duration timeout) {
    SHOAL_RETURN_IF_ERROR(member_.Start(timeout));
    options_.name = member_.name();
    for (uint32_t t = 0; t < options_.threads; ++t) {
      lanes_.push_back(std::make_unique<Lane>(this, t));
      ++running_;
      threads_.emplace_back([this, t] {
        lanes_[t]->Run();
        MutexLock lock(&mu_);
        --running_;
        changed_.SignalAll();
      });
    }
    return absl::OkStatus();
  }

  absl::Status Drain(absl::Duration grace) {
    StopLanes();
    const absl::Duration end = options_.clock->Now() + grace;
    // Answers the questions for work that are parked; without a scheduler they end by themselves.
    DrainRequest request;
    request.set_name(options_.name);
    request.set_grace_ms(static_cast<uint32_t>(std::min(absl::ToInt64Milliseconds(grace), int64_t{1} << 30)));
    request.set_reason("the worker stops");
    (void)options_.scheduler->Drain(request, std::min(grace, kDrainTimeout)).status();
    bool drained = false;
    {
      MutexLock lock(&mu_);
      while (running_ > 0 && options_.clock->Now() < end) changed_.WaitFor(&mu_, end - options_.clock->Now());
      drained = running_ == 0;
    }
    const absl::Status left = member_.Leave(kGoodbyeTimeout);
    Kill();
    if (!drained) {
      return absl::DeadlineExceededError(absl::StrCat("lanes still ran after the grace period of ",
                                                      absl::FormatDuration(grace),
                                                      "; their splits are trained again by others"));
    }
    return left;
  }

  void Kill() {
    killed_ = true;
    member_.Stop();
    AbortCalls(ParameterClient::Calls::kAll);
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  const ClusterMember& member() const { return member_; }

  // LaneHost:
  const WorkerOptions& options() const override { return options_; }
  absl::StatusOr<std::shared_ptr<JobContext>> Context(uint64_t job) override;
  bool JobActive(uint64_t job, uint64_t run) override {
    MutexLock lock(&mu_);
    const auto view = views_.find(job);
    return view != views_.end() && (run == 0 || view->second.run() <= run);
  }
  bool MapSuperseded(uint64_t job, uint64_t version) override {
    MutexLock lock(&mu_);
    const auto view = views_.find(job);
    return view != views_.end() && HasNewerMap(view->second, version);
  }
  void AwaitMap(uint64_t job, uint64_t version, absl::Duration timeout) override;
  absl::StatusOr<NextWorkReply> NextWork(NextWorkRequest request) override;
  void Flush() override { member_.Flush(); }
  Progress& progress() override { return progress_; }
  ReachLog& reach() override { return reach_; }
  bool stopping() const override { return stopping_; }
  bool killed() const override {
    absl::Status reason;
    return killed_ || (member_.Ended(&reason) && !reason.ok());
  }

 private:
  ClusterMember::Callbacks MakeCallbacks() {
    ClusterMember::Callbacks callbacks;
    callbacks.on_view = [this](const ClusterView& view) { TakeView(view); };
    callbacks.do_task = [this](const Task& task, TaskResult* result) { return DoTask(task, result); };
    callbacks.collect = [this] {
      HeartbeatRequest request = progress_.Collect();
      for (Unreachable& server : reach_.Report()) *request.add_unreachable() = std::move(server);
      return request;
    };
    callbacks.not_delivered = [this](const HeartbeatRequest& request) { progress_.Restore(request); };
    return callbacks;
  }
  void TakeView(const ClusterView& view);
  absl::Status DoTask(const Task& task, TaskResult* result);
  absl::StatusOr<std::shared_ptr<JobContext>> MakeContext(uint64_t job);
  // Lanes end after their batch. The rows that they wait for are for the batch after it.
  void StopLanes();
  void AbortCalls(ParameterClient::Calls calls);

  WorkerOptions options_;
  Progress progress_;
  ReachLog reach_;
  std::atomic<bool> stopping_{false};
  std::atomic<bool> killed_{false};

  Mutex mu_;
  CondVar changed_;
  std::map<uint64_t, JobView> views_ ABSL_GUARDED_BY(mu_);
  std::map<uint64_t, std::shared_ptr<JobContext>> contexts_ ABSL_GUARDED_BY(mu_);
  std::set<uint64_t> being_made_ ABSL_GUARDED_BY(mu_);
  uint32_t running_ ABSL_GUARDED_BY(mu_) = 0;

  std::vector<std::unique_ptr<Lane>> lanes_;
  std::vector<std::thread> threads_;
  ClusterMember member_;
};

void WorkerAgent::Impl::StopLanes() {
  stopping_ = true;
  AbortCalls(ParameterClient::Calls::kPulls);
}

void WorkerAgent::Impl::AbortCalls(ParameterClient::Calls calls) {
  std::vector<std::shared_ptr<JobContext>> contexts;
  {
    MutexLock lock(&mu_);
    for (const auto& [job, context] : contexts_) contexts.push_back(context);
    changed_.SignalAll();
  }
  for (const std::shared_ptr<JobContext>& context : contexts) context->Abort(calls);
}

void WorkerAgent::Impl::TakeView(const ClusterView& view) {
  if (view.shutdown()) StopLanes();
  std::vector<std::pair<std::shared_ptr<JobContext>, JobView>> updates;
  {
    MutexLock lock(&mu_);
    views_.clear();
    for (const JobView& job : view.jobs()) views_[job.job()] = job;
    for (auto it = contexts_.begin(); it != contexts_.end();) {
      auto found = views_.find(it->first);
      if (found == views_.end()) {
        it = contexts_.erase(it);  // lanes that still use it hold a reference
      } else {
        updates.emplace_back(it->second, found->second);
        ++it;
      }
    }
  }
  for (const auto& [context, job] : updates) {
    const absl::Status status = context->UpdateView(job);
    if (!status.ok())
      progress_.AddError(job.job(), job.run(), absl::StrCat("worker ", options_.name, ": ", status.message()));
  }
  MutexLock lock(&mu_);
  changed_.SignalAll();
}

absl::StatusOr<std::shared_ptr<JobContext>> WorkerAgent::Impl::Context(uint64_t job) {
  const absl::Duration end = options_.clock->Now() + kCallTimeout;
  {
    MutexLock lock(&mu_);
    for (;;) {
      auto found = contexts_.find(job);
      if (found != contexts_.end()) return found->second;
      if (killed()) return absl::CancelledError("the worker is stopping");
      // Being made: by another lane. Without a map: the grant overtook the view.
      const bool being_made = being_made_.count(job) > 0;
      auto view = views_.find(job);
      if (!being_made && view != views_.end() && view->second.owner_size() > 0) break;
      if (!being_made && options_.clock->Now() >= end) {
        return absl::UnavailableError(absl::StrCat("the view of this worker has no map of job ", job));
      }
      changed_.WaitFor(&mu_, kContextWait);
    }
    being_made_.insert(job);
  }
  absl::StatusOr<std::shared_ptr<JobContext>> context = MakeContext(job);
  MutexLock lock(&mu_);
  being_made_.erase(job);
  changed_.SignalAll();
  if (!context.ok()) return context.status();
  auto view = views_.find(job);
  if (view == views_.end()) return absl::CancelledError("the job has ended");
  // A newer map may have come while the context was made.
  SHOAL_RETURN_IF_ERROR((*context)->UpdateView(view->second));
  contexts_[job] = *context;
  return *context;
}

absl::StatusOr<std::shared_ptr<JobContext>> WorkerAgent::Impl::MakeContext(uint64_t job) {
  JobRef ref;
  ref.set_job(job);
  SHOAL_ASSIGN_OR_RETURN(JobConfig config, options_.scheduler->GetJobConfig(ref, kCallTimeout));
  SHOAL_ASSIGN_OR_RETURN(std::shared_ptr<JobContext> context,
                         JobContext::Create(job, std::move(config), options_.connect));
  JobView view;
  {
    MutexLock lock(&mu_);
    auto found = views_.find(job);
    if (found == views_.end()) return absl::CancelledError("the job has ended");
    view = found->second;
  }
  SHOAL_RETURN_IF_ERROR(context->UpdateView(view));
  return context;
}

void WorkerAgent::Impl::AwaitMap(uint64_t job, uint64_t version, absl::Duration timeout) {
  const absl::Duration end = options_.clock->Now() + timeout;
  std::shared_ptr<JobContext> context;
  JobView view;
  {
    MutexLock lock(&mu_);
    for (;;) {
      auto found = views_.find(job);
      if (killed() || stopping_ || found == views_.end() || HasNewerMap(found->second, version)) break;
      const absl::Duration left = end - options_.clock->Now();
      if (left <= absl::ZeroDuration()) break;
      changed_.WaitFor(&mu_, left);
    }
    auto found = contexts_.find(job);
    if (found == contexts_.end() || views_.count(job) == 0) return;
    context = found->second;
    view = views_[job];
  }
  const absl::Status status = context->UpdateView(view);
  if (!status.ok()) progress_.AddError(job, view.run(), absl::StrCat("worker ", options_.name, ": ", status.message()));
}

absl::StatusOr<NextWorkReply> WorkerAgent::Impl::NextWork(NextWorkRequest request) {
  absl::Duration backoff = absl::Milliseconds(20);
  while (!killed()) {
    *request.mutable_identity() = member_.identity();
    const absl::Duration timeout = stopping_ ? kGoodbyeTimeout : kCallTimeout + absl::Milliseconds(request.wait_ms());
    absl::StatusOr<NextWorkReply> reply = options_.scheduler->NextWork(request, timeout);
    if (reply.ok()) return reply;
    member_.Examine(reply.status(), request.identity());
    if (!absl::IsUnavailable(reply.status()) && !absl::IsDeadlineExceeded(reply.status()) &&
        !absl::IsNotFound(reply.status())) {
      return reply.status();
    }
    if (stopping_) return reply.status();  // the lease expires by itself
    std::this_thread::sleep_for(absl::ToChronoMilliseconds(backoff));
    backoff = std::min(backoff * 2, kLongestNap);
  }
  return absl::CancelledError("the worker is stopping");
}

absl::Status WorkerAgent::Impl::DoTask(const Task& task, TaskResult* result) {
  switch (task.kind()) {
    case Task::PLAN: {
      SHOAL_ASSIGN_OR_RETURN(*result->mutable_plan(), PlanJob(task.job_config()));
      return absl::OkStatus();
    }
    case Task::CHECK_INPUTS:
      return CheckInputs(task.job_config());
    case Task::DROP_JOB: {
      MutexLock lock(&mu_);
      contexts_.erase(task.job());
      return absl::OkStatus();
    }
    default:
      return absl::UnimplementedError(absl::StrCat("task kind ", task.kind(), " is not for workers"));
  }
}

absl::StatusOr<std::unique_ptr<WorkerAgent>> WorkerAgent::Start(const WorkerOptions& options, absl::Duration timeout) {
  if (options.threads == 0) return absl::InvalidArgumentError("threads: 0, must be at least 1");
  auto impl = std::make_unique<Impl>(options);
  SHOAL_RETURN_IF_ERROR(impl->Start(timeout));
  return std::unique_ptr<WorkerAgent>(new WorkerAgent(std::move(impl)));
}

WorkerAgent::WorkerAgent(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
WorkerAgent::~WorkerAgent() = default;
absl::Status WorkerAgent::Drain(absl::Duration grace) { return impl_->Drain(grace); }
void WorkerAgent::Kill() { impl_->Kill(); }
bool WorkerAgent::Ended(absl::Status* reason) const { return impl_->member().Ended(reason); }
const std::string& WorkerAgent::name() const { return impl_->member().name(); }

}  // namespace shoal
