#include "scheduler/core.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

namespace shoal {
namespace {

// No call is parked for longer, whatever it asks for.
constexpr absl::Duration kMaxWait = absl::Seconds(60);

}  // namespace

SchedulerCore::SchedulerCore(const SchedulerOptions& options, std::unique_ptr<DurableState> state)
    : options_(options), state_(std::move(state)), members_(state_.get(), options.deadline), tasks_(state_.get()) {
  context_.clock = options_.clock;
  context_.heartbeat = options_.heartbeat;
  context_.deadline = options_.deadline;
  context_.members = &members_;
  context_.tasks = &tasks_;
  context_.threads = &threads_;
  context_.state = state_.get();
  context_.changes = &changes_;
}

void SchedulerCore::Resume() {
  jobs_version_ = state_->Next(Counter::kVersion);
  for (const StoredProcess& stored : state_->processes()) members_.Restore(stored, Now());
  std::vector<ActiveJob*> ended;
  for (const StoredJob& stored : state_->jobs()) {
    auto job = std::make_unique<ActiveJob>(context_, stored);
    const auto rounds = state_->rounds().find(job->id());
    const auto progress = state_->progress().find(job->id());
    const auto log = state_->logs().find(job->id());
    StoredLife life;
    if (rounds != state_->rounds().end()) life.rounds = &rounds->second;
    if (progress != state_->progress().end()) life.progress = &progress->second;
    if (log != state_->logs().end()) life.log = &log->second;
    job->Resume(life);
    if (!job->request_id().empty()) request_ids_[job->request_id()] = job->id();
    (job->ended() ? ended : active_).push_back(job.get());
    jobs_[stored.id()] = std::move(job);
  }
  std::sort(ended.begin(), ended.end(), [](ActiveJob* a, ActiveJob* b) { return a->version() < b->version(); });
  for (const ActiveJob* job : ended) ended_.push_back(job->id());
  state_->ForgetLoaded();
  StartQueuedJobs();
}

absl::Duration SchedulerCore::Until(uint32_t wait_ms) const {
  return Now() + std::min(absl::Milliseconds(wait_ms), kMaxWait);
}

void SchedulerCore::Tick() {
  for (Process* process : members_.Expire(Now())) {
    Gone(process, "died",
         absl::NotFoundError(absl::StrCat(process->Title(), " was silent for ", absl::FormatDuration(options_.deadline),
                                          " and declared dead: register again")));
  }
  members_.PruneGone(Now());
  for (ActiveJob* job : active_) job->Tick();
  for (auto it = watchers_.begin(); it != watchers_.end();) {
    if (it->second.until > Now()) {
      ++it;
      continue;
    }
    Answer<ClusterView>(std::move(it->second.done), View(it->first));
    it = watchers_.erase(it);
  }
  ServeGetJobs();
  for (auto& [id, thread] : threads_.all()) {
    if (!thread.parked.has_value() || thread.parked->until > Now()) continue;
    Answer<NextWorkReply>(std::move(thread.parked->done), NextWorkReply());
    thread.parked.reset();
  }
}

void SchedulerCore::ShutdownCluster() {
  shutdown_ = true;
  changes_.views = true;
  changes_.work = true;
}

void SchedulerCore::Close() {
  const absl::Status cancelled = absl::CancelledError("the scheduler is going away");
  for (auto& [process, watch] : watchers_) Answer<ClusterView>(std::move(watch.done), cancelled);
  for (ParkedGetJob& parked : get_jobs_) Answer<JobStatus>(std::move(parked.done), cancelled);
  for (auto& [id, thread] : threads_.all()) {
    if (thread.parked.has_value()) Answer<NextWorkReply>(std::move(thread.parked->done), cancelled);
    thread.parked.reset();
  }
  watchers_.clear();
  get_jobs_.clear();
}

std::vector<std::function<void()>> SchedulerCore::TakeAnswers() {
  const auto ended =
      std::stable_partition(active_.begin(), active_.end(), [](ActiveJob* job) { return !job->ended(); });
  for (auto it = ended; it != active_.end(); ++it) ended_.push_back((*it)->id());
  active_.erase(ended, active_.end());
  ForgetEndedJobs();
  StartQueuedJobs();
  ReleaseDrained();
  if (std::exchange(changes_.work, false)) ServeThreads();
  // Serving threads changes live sets, so views come after it.
  if (std::exchange(changes_.views, false)) jobs_version_ = state_->Next(Counter::kVersion);
  ServeWatchers();
  if (std::exchange(changes_.jobs, false)) ServeGetJobs();
  const absl::Status stored = state_->Commit();
  std::vector<std::function<void()>> answers;
  for (auto& answer : std::exchange(answers_, {})) {
    answers.push_back([answer = std::move(answer), stored] { answer(stored); });
  }
  return answers;
}

ActiveJob* SchedulerCore::FindJob(uint64_t id) {
  const auto it = jobs_.find(id);
  return it == jobs_.end() ? nullptr : it->second.get();
}

absl::StatusOr<ActiveJob*> SchedulerCore::FindJobOrError(uint64_t id) {
  ActiveJob* const job = FindJob(id);
  if (job == nullptr) return absl::NotFoundError(absl::StrCat("job ", id, ": there is no such job"));
  return job;
}

void SchedulerCore::StartQueuedJobs() {
  uint32_t running = std::count_if(active_.begin(), active_.end(), [](ActiveJob* job) { return !job->queued(); });
  for (ActiveJob* job : active_) {
    if (running >= options_.max_running_jobs) return;
    if (!job->queued()) continue;
    job->Start();
    ++running;
  }
}

void SchedulerCore::ReleaseDrained() {
  for (Role role : {WORKER, SERVER}) {
    for (Process* process : members_.Live(role)) {
      if (!process->draining || process->may_exit) continue;
      const bool needed =
          std::any_of(active_.begin(), active_.end(), [process](ActiveJob* job) { return job->Needs(process->id); });
      if (needed && Now() < process->exits_at()) continue;
      process->may_exit = true;
      changes_.views = true;
    }
  }
}

void SchedulerCore::ForgetEndedJobs() {
  for (; ended_.size() > options_.max_ended_jobs; ended_.pop_front()) {
    const auto job = jobs_.find(ended_.front());
    request_ids_.erase(job->second->request_id());
    state_->EraseJob(job->first);
    state_->EraseLog(job->first);
    jobs_.erase(job);
  }
}

uint64_t SchedulerCore::ViewVersion(uint64_t process) const { return std::max(jobs_version_, tasks_.Version(process)); }

ClusterView SchedulerCore::View(uint64_t process) const {
  ClusterView view;
  view.set_version(ViewVersion(process));
  const auto member = members_.all().find(process);
  view.set_shutdown(shutdown_ || (member != members_.all().end() && member->second.may_exit));
  for (const ActiveJob* job : active_) {
    if (!job->queued() && !job->ended()) *view.add_jobs() = job->View();
  }
  for (const Task* task : tasks_.Of(process)) *view.add_tasks() = *task;
  return view;
}

void SchedulerCore::ServeWatchers() {
  for (auto it = watchers_.begin(); it != watchers_.end();) {
    if (ViewVersion(it->first) == it->second.known_version) {
      ++it;
      continue;
    }
    Answer<ClusterView>(std::move(it->second.done), View(it->first));
    it = watchers_.erase(it);
  }
}

}  // namespace shoal
