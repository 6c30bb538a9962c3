#include "proto/cluster_member.h"

#include <algorithm>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/status_macros.h"

namespace shoal {
namespace {

constexpr absl::Duration kCallTimeout = absl::Seconds(5);
constexpr uint32_t kWatchWaitMs = 1000;
constexpr absl::Duration kRetryNap = absl::Milliseconds(200);
constexpr absl::Duration kTickEvery = absl::Milliseconds(100);

bool CannotReach(const absl::Status& status) { return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status); }

}  // namespace

ClusterMember::ClusterMember(SchedulerClient* scheduler, RegisterRequest registration, Callbacks callbacks)
    : scheduler_(*scheduler),
      registration_(std::move(registration)),
      callbacks_(std::move(callbacks)),
      tasks_(callbacks_.task_queues) {
  std::random_device random;
  registration_.set_start(uint64_t{random()} << 32 | random());
}

ClusterMember::~ClusterMember() { Stop(); }

absl::Status ClusterMember::Start(absl::Duration timeout) {
  SHOAL_RETURN_IF_ERROR(Register(timeout));
  threads_.emplace_back([this] { WatchLoop(); });
  for (size_t queue = 0; queue < callbacks_.task_queues; ++queue) {
    threads_.emplace_back([this, queue] { TaskLoop(queue); });
  }
  threads_.emplace_back([this] { HeartbeatLoop(); });
  return absl::OkStatus();
}

void ClusterMember::Stop() {
  {
    MutexLock lock(&mu_);
    stopped_ = true;
    changed_.SignalAll();
  }
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

absl::Status ClusterMember::Register(absl::Duration timeout) {
  const Clock& clock = Clock::Steady();
  const absl::Duration start = clock.Now();
  RegisterRequest request = registration_;
  request.set_former(identity().process());
  for (;;) {
    const absl::Duration left = timeout - (clock.Now() - start);
    absl::StatusOr<RegisterReply> reply =
        scheduler_.Register(request, std::clamp(left, absl::Milliseconds(100), kCallTimeout));
    if (reply.ok()) {
      if (registration_.name().empty()) registration_.set_name(reply->name());
      if (reply->heartbeat_ms() > 0) heartbeat_ = absl::Milliseconds(reply->heartbeat_ms());
      MutexLock lock(&mu_);
      identity_.set_process(reply->process());
      seen_tasks_.clear();
      return absl::OkStatus();
    }
    if (!CannotReach(reply.status())) return reply.status();
    if (stopped_ || clock.Now() - start + kRetryNap > timeout) {
      return absl::UnavailableError(absl::StrCat("the scheduler cannot be reached within ",
                                                 absl::FormatDuration(timeout), ": ", reply.status().message(),
                                                 "; is it running, and is --scheduler its address?"));
    }
    Nap(kRetryNap);
  }
}

absl::Status ClusterMember::Leave(absl::Duration timeout) {
  LeaveRequest request;
  *request.mutable_identity() = identity();
  return scheduler_.Leave(request, timeout).status();
}

void ClusterMember::End(const absl::Status& reason) {
  MutexLock lock(&mu_);
  if (!ended_) end_reason_ = reason;
  ended_ = true;
  changed_.SignalAll();
}

bool ClusterMember::Ended(absl::Status* reason) const {
  MutexLock lock(&mu_);
  if (ended_) *reason = end_reason_;
  return ended_;
}

void ClusterMember::Examine(const absl::Status& status, const Identity& asked) {
  if (absl::IsFailedPrecondition(status)) {
    if (identity().process() == asked.process()) End(status);
  } else if (absl::IsNotFound(status)) {
    MutexLock lock(&register_mu_);
    if (identity().process() != asked.process() || stopped_) return;  // another thread was quicker
    const absl::Status registered = Register(absl::Seconds(1));
    if (!registered.ok() && !CannotReach(registered)) End(registered);
  }
}

void ClusterMember::Nap(absl::Duration duration) {
  MutexLock lock(&mu_);
  if (!stopped_ && !ended_) changed_.WaitFor(&mu_, duration);
}

Identity ClusterMember::identity() const {
  MutexLock lock(&mu_);
  return identity_;
}

ClusterView ClusterMember::view() const {
  MutexLock lock(&mu_);
  return view_;
}

void ClusterMember::AwaitView(uint64_t version, absl::Duration timeout) {
  const Clock& clock = Clock::Steady();
  const absl::Duration end = clock.Now() + timeout;
  MutexLock lock(&mu_);
  while (view_.version() <= version && !stopped_ && !ended_) {
    const absl::Duration left = end - clock.Now();
    if (left <= absl::ZeroDuration()) return;
    changed_.WaitFor(&mu_, left);
  }
}

void ClusterMember::WatchLoop() {
  WatchRequest request;
  request.set_wait_ms(kWatchWaitMs);
  absl::Status reason;
  while (!stopped_ && !Ended(&reason)) {
    *request.mutable_identity() = identity();
    absl::StatusOr<ClusterView> view = scheduler_.Watch(request, kCallTimeout);
    if (!view.ok()) {
      Examine(view.status(), request.identity());
      // A scheduler that starts anew may count versions from below: ask it for everything.
      request.set_known_version(0);
      Nap(kRetryNap);
      continue;
    }
    if (view->version() == request.known_version()) continue;
    request.set_known_version(view->version());
    if (callbacks_.on_view) callbacks_.on_view(*view);
    {
      MutexLock lock(&mu_);
      view_ = *view;
    }
    TakeTasks(*view);  // after the view, which tasks look at
    changed_.SignalAll();
    if (view->shutdown()) End(absl::OkStatus());
  }
}

void ClusterMember::TakeTasks(const ClusterView& view) {
  MutexLock lock(&mu_);
  for (const Task& task : view.tasks()) {
    if (!seen_tasks_.insert(task.id()).second) continue;
    tasks_[callbacks_.queue_of ? callbacks_.queue_of(task) : 0].push_back(task);
  }
}

void ClusterMember::TaskLoop(size_t queue) {
  absl::Status reason;
  while (!stopped_ && !Ended(&reason)) {
    Task task;
    {
      MutexLock lock(&mu_);
      if (tasks_[queue].empty()) {
        changed_.WaitFor(&mu_, absl::Seconds(1));
        continue;
      }
      task = std::move(tasks_[queue].front());
      tasks_[queue].pop_front();
    }
    TaskResult result;
    const absl::Status status = callbacks_.do_task(task, &result);
    result.set_id(task.id());
    result.set_code(static_cast<int>(status.code()));
    if (!status.ok()) result.set_message(std::string(status.message()));
    while (!stopped_ && !Ended(&reason)) {
      *result.mutable_identity() = identity();
      const absl::Status sent = scheduler_.TaskDone(result, kCallTimeout).status();
      if (sent.ok() || !CannotReach(sent)) {
        Examine(sent, result.identity());
        break;
      }
      Nap(kRetryNap);
    }
  }
}

void ClusterMember::Flush() {
  absl::Status status;
  const Identity asked = identity();
  {
    MutexLock lock(&send_mu_);
    HeartbeatRequest request = callbacks_.collect();
    *request.mutable_identity() = asked;
    status = scheduler_.Heartbeat(request, kCallTimeout).status();
    if (!status.ok() && callbacks_.not_delivered) callbacks_.not_delivered(request);
  }
  Examine(status, asked);
}

void ClusterMember::HeartbeatLoop() {
  const Clock& clock = Clock::Steady();
  absl::Duration next = clock.Now();
  absl::Status reason;
  // A process that is told to shut down is not dead while it hands over what it has.
  while (!stopped_ && (!Ended(&reason) || reason.ok())) {
    if (clock.Now() >= next) {
      Flush();
      next = clock.Now() + heartbeat_;
    }
    if (callbacks_.tick) callbacks_.tick();
    MutexLock lock(&mu_);
    if (!stopped_) changed_.WaitFor(&mu_, std::min(kTickEvery, heartbeat_));
  }
}

}  // namespace shoal
