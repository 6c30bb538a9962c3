#include "server/parameter_server.h"

#include <map>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "server/push_stage.h"
#include "server/server_job.h"

namespace shoal {

// The jobs of the server. Thread-safe; the lock guards the list only, never a job's work.
class ParameterServer::Impl {
 public:
  explicit Impl(ParameterServerOptions options)
      : options_(std::move(options)), stage_(options_.staged_bytes, options_.staged_patience, options_.clock) {}
  const ParameterServerOptions& options() const { return options_; }
  PushStage& stage() { return stage_; }

  std::shared_ptr<ServerJob> Find(uint64_t job) const {
    MutexLock lock(&mu_);
    const auto it = jobs_.find(job);
    return it == jobs_.end() ? nullptr : it->second;
  }
  // Adds a job; views that came while it was made are caught up with.
  void Put(uint64_t job, const std::shared_ptr<ServerJob>& made) {
    JobNews news;
    {
      MutexLock lock(&mu_);
      jobs_[job] = made;
      const auto it = news_.find(job);
      if (it != news_.end()) news = it->second;
    }
    made->UpdateView(news);
  }
  // Keeps the view for jobs to come and tells the job, if it is here.
  void Tell(const JobView& view, std::shared_ptr<const std::set<uint64_t>> tasks) {
    std::shared_ptr<ServerJob> job;
    JobNews news;
    {
      MutexLock lock(&mu_);
      news = {view, ++sequence_, std::move(tasks)};
      news_[view.job()] = news;
      const auto it = jobs_.find(view.job());
      if (it != jobs_.end()) job = it->second;
    }
    if (job != nullptr) job->UpdateView(news);
  }
  void SetSelf(uint64_t self) {
    MutexLock lock(&mu_);
    self_ = self;
  }
  // The newest view of a job and this incarnation; false: none has come yet.
  bool NewsOf(uint64_t job, JobView* view, uint64_t* self) const {
    MutexLock lock(&mu_);
    const auto it = news_.find(job);
    if (it == news_.end() || self_ == 0) return false;
    *view = it->second.view;
    *self = self_;
    return true;
  }
  // Forgets views of jobs that are not among these.
  void KeepNews(const std::set<uint64_t>& jobs) {
    MutexLock lock(&mu_);
    for (auto it = news_.begin(); it != news_.end();) it = jobs.count(it->first) == 0 ? news_.erase(it) : ++it;
  }
  // What to say about a job that is not here: one that the cluster works on may be on its way to this server.
  absl::Status Missing(uint64_t job) const {
    MutexLock lock(&mu_);
    if (news_.count(job) == 0) return absl::NotFoundError(absl::StrCat("job ", job, ": not on this server"));
    return absl::UnavailableError(absl::StrCat("job ", job, ": not on this server yet"));
  }
  std::shared_ptr<ServerJob> Remove(uint64_t job) {
    MutexLock lock(&mu_);
    const auto it = jobs_.find(job);
    if (it == jobs_.end()) return nullptr;
    std::shared_ptr<ServerJob> out = std::move(it->second);
    jobs_.erase(it);
    return out;
  }
  std::map<uint64_t, std::shared_ptr<ServerJob>> All() const {
    MutexLock lock(&mu_);
    return jobs_;
  }
  // The job, if it is here in the task's run.
  absl::StatusOr<std::shared_ptr<ServerJob>> ForTask(const Task& task) const;
  // The job for this run and incarnation, made if need be; `fill`: with its partitions.
  absl::StatusOr<std::shared_ptr<ServerJob>> Obtain(const JobConfig& config, const JobView& view, uint64_t self,
                                                    bool fill, const std::string& restore_from);

 private:
  const ParameterServerOptions options_;
  PushStage stage_;
  Mutex prepare_mu_;  // one PrepareJob at a time, so that a repeat finds what the first one made
  mutable Mutex mu_;
  std::map<uint64_t, std::shared_ptr<ServerJob>> jobs_ ABSL_GUARDED_BY(mu_);
  std::map<uint64_t, JobNews> news_ ABSL_GUARDED_BY(mu_);  // newest view of each job of the cluster
  uint64_t sequence_ ABSL_GUARDED_BY(mu_) = 0;             // of views
  uint64_t self_ ABSL_GUARDED_BY(mu_) = 0;                 // 0: not known yet
};

ParameterServer::ParameterServer(ParameterServerOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}

ParameterServer::~ParameterServer() {
  for (const auto& [id, job] : impl_->All()) job->Drop();
}

absl::StatusOr<std::shared_ptr<ServerJob>> ParameterServer::Impl::Obtain(const JobConfig& config, const JobView& view,
                                                                         uint64_t self, bool fill,
                                                                         const std::string& restore_from) {
  std::shared_ptr<ServerJob> older, job;
  {
    MutexLock lock(&prepare_mu_);
    older = Find(view.job());
    // What an earlier incarnation of this server held, the scheduler has given up.
    if (older != nullptr && older->run() == view.run() && older->self() == self) return older;
    if (older != nullptr && older->run() > view.run()) {
      return absl::FailedPreconditionError(
          absl::StrCat("job ", view.job(), " run ", view.run(), ": this server already holds run ", older->run()));
    }
    SHOAL_ASSIGN_OR_RETURN(job, ServerJob::Create(options_, config, view, self));
    if (fill) SHOAL_RETURN_IF_ERROR(job->Restore(job->Mine(), restore_from));
    Put(view.job(), job);
  }
  if (older != nullptr) older->Drop();
  return job;
}

absl::Status ParameterServer::PrepareJob(const JobConfig& config, const JobView& view, uint64_t self,
                                         const std::string& restore_from) {
  return impl_->Obtain(config, view, self, /*fill=*/true, restore_from).status();
}

absl::Status ParameterServer::RestorePartitions(const JobConfig& config, const JobView& view, uint64_t self,
                                                const std::vector<uint32_t>& partitions,
                                                const std::string& restore_from) {
  SHOAL_ASSIGN_OR_RETURN(const std::shared_ptr<ServerJob> job, impl_->Obtain(config, view, self, /*fill=*/false, ""));
  return job->Restore(partitions, restore_from);
}

std::string ParameterServer::TakeLoadNote(uint64_t id) {
  const std::shared_ptr<ServerJob> job = impl_->Find(id);
  return job == nullptr ? std::string() : job->TakeLoadNote();
}

void ParameterServer::UpdateView(const ClusterView& view, uint64_t self) {
  impl_->SetSelf(self);
  auto tasks = std::make_shared<std::set<uint64_t>>();
  for (const Task& task : view.tasks()) tasks->insert(task.id());
  std::set<uint64_t> jobs;
  for (const JobView& job : view.jobs()) {
    jobs.insert(job.job());
    impl_->Tell(job, tasks);
  }
  impl_->KeepNews(jobs);
}

void ParameterServer::UpdateView(const JobView& view) { impl_->Tell(view, nullptr); }

void ParameterServer::DropJob(uint64_t id) {
  const std::shared_ptr<ServerJob> job = impl_->Remove(id);
  if (job != nullptr) job->Drop();
}

BufferPool* ParameterServer::buffers() const { return impl_->options().buffers.get(); }

void ParameterServer::OpenSplit(const OpenSplitRequest* request, OpenSplitReply* reply, Done done) {
  const std::shared_ptr<ServerJob> job = impl_->Find(request->header.job);
  if (job == nullptr) return done(impl_->Missing(request->header.job));
  job->OpenSplit(*request, reply, done);
}

absl::StatusOr<PullSizes> ParameterServer::SizePull(const PullRequest& request) const {
  const std::shared_ptr<ServerJob> job = impl_->Find(request.header.job);
  if (job == nullptr) return impl_->Missing(request.header.job);
  return job->SizePull(request);
}

void ParameterServer::Pull(const PullRequest* request, absl::Duration timeout, PullReply* reply, Done done) {
  const std::shared_ptr<ServerJob> job = impl_->Find(request->header.job);
  if (job == nullptr) return done(impl_->Missing(request->header.job));
  job->Pull(request, timeout, reply, std::move(done));
}

void ParameterServer::Push(const PushRequest* request, PushReply* reply, Done done) {
  const std::shared_ptr<ServerJob> job = impl_->Find(request->header.job);
  if (job == nullptr) return done(impl_->Missing(request->header.job));
  job->Push(*request, reply, done);
}

absl::Status ParameterServer::StagePush(const PushPiece& piece, ByteArray storage, std::vector<ByteArray>* whole,
                                        PushReply* reply) {
  const std::shared_ptr<ServerJob> job = impl_->Find(piece.header.job);
  if (job == nullptr) return impl_->Missing(piece.header.job);
  // Nothing is kept of a lane that the push would be refused for.
  SHOAL_ASSIGN_OR_RETURN(reply->outcome, job->Welcome(piece.header));
  if (reply->outcome != RequestOutcome::kOk) return absl::OkStatus();
  SHOAL_RETURN_IF_ERROR(impl_->stage().Take(piece, std::move(storage), whole));
  reply->staged = whole->empty();
  return absl::OkStatus();
}

uint64_t ParameterServer::StagedBytes() const { return impl_->stage().bytes(); }

void ParameterServer::Mark(const MarkRequest* request, MarkReply* reply, Done done) {
  const std::shared_ptr<ServerJob> job = impl_->Find(request->header.job);
  if (job == nullptr) return done(impl_->Missing(request->header.job));
  job->Mark(*request, reply, done);
}

absl::StatusOr<ReplicaReply> ParameterServer::Replicate(const ReplicaRequest& request) {
  std::shared_ptr<ServerJob> job = impl_->Find(request.job());
  JobView view;
  uint64_t self = 0;
  if (!impl_->NewsOf(request.job(), &view, &self)) {
    return absl::UnavailableError(absl::StrCat("job ", request.job(), ": this server has not heard of it"));
  }
  // A server can get a job together with its first partition.
  if (job == nullptr || job->self() != self || (job->run() < request.run() && view.run() == request.run())) {
    if (view.run() != request.run()) {
      return absl::UnavailableError(absl::StrCat("run: ", request.run(), ", this server knows of ", view.run()));
    }
    if (request.target() != self) {
      return absl::FailedPreconditionError(
          absl::StrCat("target: process ", request.target(), ", this server is process ", self));
    }
    if (!request.has_config()) return absl::NotFoundError(absl::StrCat("job ", request.job(), ": not on this server"));
    SHOAL_ASSIGN_OR_RETURN(job, impl_->Obtain(request.config(), view, self, /*fill=*/false, ""));
  }
  ReplicaReply reply;
  SHOAL_RETURN_IF_ERROR(job->Receive(request, &reply));
  return reply;
}

absl::StatusOr<std::shared_ptr<ServerJob>> ParameterServer::Impl::ForTask(const Task& task) const {
  std::shared_ptr<ServerJob> job = Find(task.job());
  if (job == nullptr) return Missing(task.job());
  if (job->run() == task.run()) return job;
  return absl::FailedPreconditionError(
      absl::StrCat("job ", task.job(), " run ", task.run(), ": this server holds run ", job->run()));
}

absl::Status ParameterServer::MovePartitions(const Task& task, std::string* report) {
  SHOAL_ASSIGN_OR_RETURN(const std::shared_ptr<ServerJob> job, impl_->ForTask(task));
  return job->Move(task.id(), {task.partitions().begin(), task.partitions().end()}, task.target(), report);
}

absl::Status ParameterServer::AddBackup(const Task& task, std::string* report) {
  SHOAL_ASSIGN_OR_RETURN(const std::shared_ptr<ServerJob> job, impl_->ForTask(task));
  return job->AddBackup(task.id(), {task.partitions().begin(), task.partitions().end()}, task.target(), report);
}

void ParameterServer::Tick() {
  const std::map<uint64_t, std::shared_ptr<ServerJob>> jobs = impl_->All();
  for (const auto& [id, job] : jobs) job->Tick();
  impl_->stage().Sweep([&](const RequestHeader& header) {
    const auto it = jobs.find(header.job);
    if (it == jobs.end()) return false;
    const absl::StatusOr<RequestOutcome> welcome = it->second->Welcome(header);
    return welcome.ok() && *welcome == RequestOutcome::kOk;
  });
}

absl::StatusOr<std::vector<PartitionDone>> ParameterServer::ReportDone(uint64_t id) const {
  const std::shared_ptr<ServerJob> job = impl_->Find(id);
  if (job == nullptr) return impl_->Missing(id);
  return job->ReportDone();
}

absl::StatusOr<PartInfo> ParameterServer::WritePart(uint64_t id, const CheckpointTask& task, absl::Duration timeout) {
  const std::shared_ptr<ServerJob> job = impl_->Find(id);
  if (job == nullptr) return impl_->Missing(id);
  return job->WritePart(task, timeout);
}

absl::StatusOr<std::vector<TableDigest>> ParameterServer::Digest(uint64_t id) const {
  const std::shared_ptr<ServerJob> job = impl_->Find(id);
  if (job == nullptr) return impl_->Missing(id);
  return job->Digest();
}

ServerJobReport ParameterServer::Report(uint64_t id) const {
  const std::shared_ptr<ServerJob> job = impl_->Find(id);
  if (job != nullptr) return job->Report();
  ServerJobReport report;
  report.set_job(id);
  return report;
}

std::vector<Unreachable> ParameterServer::UnreachableServers() const {
  std::map<uint64_t, Unreachable> found;
  for (const auto& [id, job] : impl_->All()) job->AddUnreachable(&found);
  std::vector<Unreachable> out;
  for (auto& [server, entry] : found) out.push_back(std::move(entry));
  return out;
}

std::vector<uint64_t> ParameterServer::Jobs() const {
  std::vector<uint64_t> out;
  for (const auto& [id, job] : impl_->All()) out.push_back(id);
  return out;
}

}  // namespace shoal
