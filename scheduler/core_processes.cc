// SchedulerCore: what processes say about themselves.
#include "absl/strings/str_cat.h"
#include "scheduler/core.h"

namespace shoal {

void SchedulerCore::Register(const RegisterRequest& request, Done<RegisterReply> done) {
  Process* fenced = nullptr;
  const absl::StatusOr<Process*> process = members_.Register(request, Now(), &fenced);
  if (!process.ok()) {
    Answer<RegisterReply>(std::move(done), process.status());
    return;
  }
  if (fenced != nullptr) {
    Gone(fenced, "was restarted",
         absl::FailedPreconditionError(absl::StrCat(fenced->Title(), " (process ", fenced->id,
                                                    ") is fenced: a newer incarnation of that name has registered")));
  }
  for (ActiveJob* job : active_) job->OnArrival(**process);
  RegisterReply reply;
  reply.set_process((*process)->id);
  reply.set_name((*process)->info.name());
  reply.set_heartbeat_ms(static_cast<uint32_t>(absl::ToInt64Milliseconds(options_.heartbeat)));
  Answer<RegisterReply>(std::move(done), std::move(reply));
}

void SchedulerCore::Gone(Process* process, const std::string& how, const absl::Status& answer) {
  const uint64_t id = process->id;
  const auto watcher = watchers_.find(id);
  if (watcher != watchers_.end()) {
    Answer<ClusterView>(std::move(watcher->second.done), answer);
    watchers_.erase(watcher);
  }
  auto& threads = threads_.all();
  for (auto it = threads.lower_bound({id, 0}); it != threads.end() && it->first.process == id;) {
    if (it->second.parked.has_value()) Answer<NextWorkReply>(std::move(it->second.parked->done), answer);
    it = threads.erase(it);
  }
  for (const Task& task : tasks_.TakeAllOf(id)) {
    ActiveJob* const job = FindJob(task.job());
    if (job != nullptr) job->OnTaskLost(task);
  }
  for (ActiveJob* job : active_) job->OnGone(*process, how);
}

void SchedulerCore::Heartbeat(const HeartbeatRequest& request, Done<HeartbeatReply> done) {
  const absl::StatusOr<Process*> found = members_.FindLive(request.identity());
  if (!found.ok()) {
    Answer<HeartbeatReply>(std::move(done), found.status());
    return;
  }
  Process* const process = *found;
  members_.Heard(process, Now());
  const auto& unreachable = request.unreachable();
  process->unreachable.assign(unreachable.begin(), unreachable.end());
  for (ActiveJob* job : active_) job->OnUnreachable(*process);
  const auto active = [this](uint64_t id) {
    ActiveJob* const job = FindJob(id);
    return job == nullptr || job->ended() ? nullptr : job;
  };
  for (const LaneReport& report : request.lanes()) {
    if (ActiveJob* const job = active(report.job())) job->OnLaneReport(*process, report);
  }
  for (const MetricSegment& segment : request.segments()) {
    if (ActiveJob* const job = active(segment.job())) job->OnSegment(*process, segment);
  }
  for (const WorkerJobReport& report : request.worker_jobs()) {
    if (ActiveJob* const job = active(report.job())) job->OnWorkerReport(*process, report);
  }
  for (const ServerJobReport& report : request.server_jobs()) {
    if (ActiveJob* const job = active(report.job())) {
      job->OnServerReport(*process, report);
    } else if (!tasks_.Has(process->id, report.job(), Task::DROP_JOB)) {
      // It missed the end of the job: it was away, or the scheduler was.
      Task drop;
      drop.set_kind(Task::DROP_JOB);
      drop.set_job(report.job());
      tasks_.Add(process->id, std::move(drop));
    }
  }
  for (const JobError& error : request.errors()) {
    if (ActiveJob* const job = active(error.job())) job->OnError(error);
  }
  Answer<HeartbeatReply>(std::move(done), HeartbeatReply());
}

void SchedulerCore::Watch(const WatchRequest& request, Done<ClusterView> done) {
  const absl::StatusOr<Process*> process = members_.FindLive(request.identity());
  if (!process.ok()) {
    Answer<ClusterView>(std::move(done), process.status());
    return;
  }
  const uint64_t id = (*process)->id;
  const auto older = watchers_.find(id);
  if (older != watchers_.end()) {  // its reply was lost, or it gave up
    Answer<ClusterView>(std::move(older->second.done), View(id));
    watchers_.erase(older);
  }
  if (request.wait_ms() == 0) {
    Answer<ClusterView>(std::move(done), View(id));
    return;
  }
  // Answered at the end of this very call when the version is another one.
  watchers_[id] = {request.known_version(), Until(request.wait_ms()), std::move(done)};
}

void SchedulerCore::TaskDone(const TaskResult& request, Done<Empty> done) {
  const absl::StatusOr<Process*> process = members_.FindLive(request.identity());
  if (!process.ok()) {
    Answer<Empty>(std::move(done), process.status());
    return;
  }
  const absl::optional<Task> task = tasks_.Take((*process)->id, request.id());
  if (task.has_value()) {
    ActiveJob* const job = FindJob(task->job());
    if (job != nullptr && !job->ended()) job->OnTaskResult(*task, **process, request);
  }
  Answer<Empty>(std::move(done), Empty());
}

absl::StatusOr<Empty> SchedulerCore::NothingToDrain(const std::string& name) {
  const Process* const gone = members_.NewestOf(name);
  if (gone == nullptr) {
    return absl::NotFoundError(
        absl::StrCat("name: no process called \"", name, "\" is known; `shoal status` lists those that are"));
  }
  // A repeat whose first answer was lost may come after the end of the drain.
  const absl::Duration ago = Now() - gone->last_heartbeat;
  if (gone->state == Process::kLeft && gone->draining && ago <= options_.deadline) return Empty();
  return absl::FailedPreconditionError(absl::StrCat(
      "name: ", gone->Title(), " (process ", gone->id, ") is ", ProcessStateName(*gone), " and was last heard from ",
      absl::FormatDuration(absl::Floor(ago, absl::Milliseconds(100))), " ago: there is nothing to drain"));
}

void SchedulerCore::Drain(const DrainRequest& request, Done<Empty> done) {
  Process* const process = members_.FindLiveByName(request.name());
  if (process == nullptr) {
    Answer<Empty>(std::move(done), NothingToDrain(request.name()));
    return;
  }
  for (ActiveJob* job : active_) {
    const absl::Status refused = process->draining ? absl::OkStatus() : job->CheckDrain(*process, request.grace_ms());
    if (refused.ok()) continue;
    Answer<Empty>(std::move(done), refused);
    return;
  }
  members_.Drain(process, absl::Milliseconds(request.grace_ms()), Now());
  changes_.work = true;  // its parked threads are told to exit
  for (ActiveJob* job : active_) job->OnDrain(*process, request.reason());
  Answer<Empty>(std::move(done), Empty());
}

void SchedulerCore::Leave(const LeaveRequest& request, Done<Empty> done) {
  Process* const process = members_.Find(request.identity().process());
  if (process != nullptr && process->alive()) {
    members_.Leave(process);
    Gone(process, "left", absl::FailedPreconditionError(absl::StrCat(process->Title(), " has left")));
  }
  Answer<Empty>(std::move(done), Empty());
}

}  // namespace shoal
