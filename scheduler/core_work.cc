// SchedulerCore: work for the threads of workers.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "scheduler/core.h"

namespace shoal {

void SchedulerCore::NextWork(const NextWorkRequest& request, Done<NextWorkReply> done) {
  const absl::StatusOr<Process*> found = members_.FindLive(request.identity());
  if (!found.ok()) {
    Answer<NextWorkReply>(std::move(done), found.status());
    return;
  }
  const Process& process = **found;
  // Bounds the table of threads: a worker says at registration how many it has.
  const uint32_t threads = std::max<uint32_t>(1, process.info.threads());
  if (!process.is(WORKER) || request.thread() >= threads) {
    Answer<NextWorkReply>(std::move(done),
                          absl::InvalidArgumentError(absl::StrCat("thread: ", request.thread(), ", ", process.Title(),
                                                                  " registered with ", threads, " threads")));
    return;
  }
  const ThreadId id{process.id, request.thread()};
  WorkThread& thread = threads_.Get(id);
  if (thread.sequence.has_value() && request.sequence() < *thread.sequence) {
    Answer<NextWorkReply>(std::move(done), NextWorkReply());  // delayed on its way; nobody waits for it any more
    return;
  }
  if (thread.parked.has_value()) {
    Answer<NextWorkReply>(std::move(thread.parked->done), NextWorkReply());
    thread.parked.reset();
  }
  thread.last_asked = Now();
  if (thread.sequence == request.sequence()) {
    if (thread.answer.has_value()) {
      Answer<NextWorkReply>(std::move(done), *thread.answer);
      return;
    }
  } else {
    thread.sequence = request.sequence();
    thread.answer.reset();
    HandIn(process, id, request);
    // Others first: a lane that hands a split back may be the only one that cannot reach a server, and would get it
    // again and again.
    if (request.has_completed() && !request.completed().finished()) ServeThreads();
    thread.carried = request.carried();
    thread.carried_job = request.carried() > 0 ? request.carried_job() : 0;
    thread.job = thread.carried_job;
  }
  thread.parked = WorkThread::Parked{std::move(done), Until(request.wait_ms())};
  ServeThread(id, &thread);
  if (!thread.parked.has_value()) return;
  // Nothing for it: nobody waits for its lane. A thread that carries leases has them to go on with.
  LeaveOtherLiveSets(id, thread.carried_job);
  if (thread.carried == 0 && request.wait_ms() > 0) return;
  NextWorkReply wait;
  const ActiveJob* const job = FindJob(thread.carried_job);
  if (job != nullptr) wait.set_share(job->AskBelow());
  Answer<NextWorkReply>(std::move(thread.parked->done), std::move(wait));
  thread.parked.reset();
}

void SchedulerCore::HandIn(const Process& process, ThreadId id, const NextWorkRequest& request) {
  if (request.has_completed()) {
    ActiveJob* const job = FindJob(request.completed().job());
    if (job != nullptr) job->Complete(process, id, request.completed());
  }
  // What it neither hands in nor carries it does not have: the reply that leased it was lost for good. A bsp thread may
  // have several finished leases to hand in, one with each question.
  for (ActiveJob* job : active_) {
    const bool more_to_hand_in = job->bsp() && request.has_completed();
    if (request.carried() == 0 ? !more_to_hand_in : job->id() != request.carried_job()) job->ReturnAllOf(id);
  }
}

void SchedulerCore::LeaveOtherLiveSets(ThreadId id, uint64_t job) {
  for (ActiveJob* other : active_) {
    if (other->id() != job) other->LeaveLiveSet(id);
  }
}

ActiveJob* SchedulerCore::ChooseJob(const Process& process, ThreadId id, const WorkThread& thread) {
  ActiveJob* const carried = thread.carried > 0 ? FindJob(thread.carried_job) : nullptr;
  if (thread.carried > 0 && (carried == nullptr || !carried->HasWorkFor(process))) return nullptr;
  if (carried != nullptr && carried->bsp()) return carried;
  ActiveJob* best = nullptr;
  uint32_t fewest = 0;
  for (ActiveJob* job : active_) {
    if (!job->HasWorkFor(process)) continue;
    const uint32_t working = threads_.CountWorking(job->id(), id);
    // Jobs that equally few threads work for take turns, or the first would take all where threads are fewer than jobs.
    if (best != nullptr && (working > fewest || (working == fewest && job->newest_lease() >= best->newest_lease()))) {
      continue;
    }
    best = job;
    fewest = working;
  }
  // A thread that leases ahead of what it carries must not take another job's turn.
  return carried == nullptr || best == carried ? best : nullptr;
}

absl::optional<NextWorkReply> SchedulerCore::FindWork(const Process& process, ThreadId id, WorkThread* thread) {
  if (shutdown_ || process.draining) {
    NextWorkReply exit;
    exit.set_kind(NextWorkReply::EXIT);
    return exit;
  }
  ActiveJob* const job = ChooseJob(process, id, *thread);
  if (job == nullptr) return absl::nullopt;
  absl::optional<NextWorkReply> reply = job->GiveWork(process, id, thread->carried);
  if (!reply.has_value()) return absl::nullopt;
  // Evaluation is outside the live set.
  LeaveOtherLiveSets(id, reply->grant().eval() ? 0 : job->id());
  thread->job = job->id();
  return reply;
}

void SchedulerCore::ServeThread(ThreadId id, WorkThread* thread) {
  const Process* const process = members_.Find(id.process);
  if (!thread->parked.has_value() || process == nullptr) return;
  const absl::optional<NextWorkReply> reply = FindWork(*process, id, thread);
  if (!reply.has_value()) return;
  thread->answer = reply;
  Answer<NextWorkReply>(std::move(thread->parked->done), *reply);
  thread->parked.reset();
}

void SchedulerCore::ServeThreads() {
  for (auto& [id, thread] : threads_.all()) ServeThread(id, &thread);
}

}  // namespace shoal
