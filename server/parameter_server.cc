#include "server/parameter_server.h"

#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "server/server_job.h"

namespace shoal {

// The jobs of the server. Thread-safe; the lock guards the list only, never a job's work.
class ParameterServer::Impl {
 public:
  explicit Impl(ParameterServerOptions options) : options_(std::move(options)) {}
  const ParameterServerOptions& options() const { return options_; }

  std::shared_ptr<ServerJob> Find(uint64_t job) const {
    MutexLock lock(&mu_);
    const auto it = jobs_.find(job);
    return it == jobs_.end() ? nullptr : it->second;
  }
  void Put(uint64_t job, std::shared_ptr<ServerJob> made) {
    MutexLock lock(&mu_);
    jobs_[job] = std::move(made);
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
  Mutex* prepare_mu() { return &prepare_mu_; }

 private:
  const ParameterServerOptions options_;
  Mutex prepare_mu_;  // one PrepareJob at a time, so that a repeat finds what the first one made
  mutable Mutex mu_;
  std::map<uint64_t, std::shared_ptr<ServerJob>> jobs_ ABSL_GUARDED_BY(mu_);
};

namespace {

absl::Status NoJob(uint64_t job) { return absl::NotFoundError(absl::StrCat("job ", job, ": not on this server")); }

}  // namespace

ParameterServer::ParameterServer(ParameterServerOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}

ParameterServer::~ParameterServer() {
  for (const auto& [id, job] : impl_->All()) job->Drop();
}

absl::Status ParameterServer::PrepareJob(const JobConfig& config, const JobView& view, uint64_t self,
                                         const std::string& restore_from) {
  std::shared_ptr<ServerJob> older;
  {
    MutexLock lock(impl_->prepare_mu());
    older = impl_->Find(view.job());
    if (older != nullptr && older->run() == view.run()) return absl::OkStatus();
    if (older != nullptr && older->run() > view.run()) {
      return absl::FailedPreconditionError(
          absl::StrCat("job ", view.job(), " run ", view.run(), ": this server already holds run ", older->run()));
    }
    absl::StatusOr<std::shared_ptr<ServerJob>> made =
        ServerJob::Create(impl_->options(), config, view, self, restore_from);
    if (!made.ok()) return made.status();
    impl_->Put(view.job(), *std::move(made));
  }
  if (older != nullptr) older->Drop();
  return absl::OkStatus();
}

void ParameterServer::UpdateView(const JobView& view) {
  const std::shared_ptr<ServerJob> job = impl_->Find(view.job());
  if (job != nullptr) job->UpdateView(view);
}

void ParameterServer::DropJob(uint64_t id) {
  const std::shared_ptr<ServerJob> job = impl_->Remove(id);
  if (job != nullptr) job->Drop();
}

void ParameterServer::OpenSplit(const OpenSplitRequest* request, OpenSplitReply* reply, Done done) {
  const std::shared_ptr<ServerJob> job = impl_->Find(request->header.job);
  if (job == nullptr) return done(NoJob(request->header.job));
  job->OpenSplit(*request, reply, done);
}

absl::StatusOr<PullSizes> ParameterServer::SizePull(const PullRequest& request) const {
  const std::shared_ptr<ServerJob> job = impl_->Find(request.header.job);
  if (job == nullptr) return NoJob(request.header.job);
  return job->SizePull(request);
}

void ParameterServer::Pull(const PullRequest* request, absl::Duration timeout, PullReply* reply, Done done) {
  const std::shared_ptr<ServerJob> job = impl_->Find(request->header.job);
  if (job == nullptr) return done(NoJob(request->header.job));
  job->Pull(request, timeout, reply, std::move(done));
}

void ParameterServer::Push(const PushRequest* request, PushReply* reply, Done done) {
  const std::shared_ptr<ServerJob> job = impl_->Find(request->header.job);
  if (job == nullptr) return done(NoJob(request->header.job));
  job->Push(*request, reply, done);
}

void ParameterServer::Mark(const MarkRequest* request, MarkReply* reply, Done done) {
  const std::shared_ptr<ServerJob> job = impl_->Find(request->header.job);
  if (job == nullptr) return done(NoJob(request->header.job));
  job->Mark(*request, reply, done);
}

void ParameterServer::Tick() {
  for (const auto& [id, job] : impl_->All()) job->Tick();
}

absl::StatusOr<std::vector<PartitionDone>> ParameterServer::ReportDone(uint64_t id) const {
  const std::shared_ptr<ServerJob> job = impl_->Find(id);
  if (job == nullptr) return NoJob(id);
  return job->ReportDone();
}

absl::StatusOr<PartInfo> ParameterServer::WritePart(uint64_t id, const CheckpointTask& task, absl::Duration timeout) {
  const std::shared_ptr<ServerJob> job = impl_->Find(id);
  if (job == nullptr) return NoJob(id);
  return job->WritePart(task, timeout);
}

absl::StatusOr<std::vector<TableDigest>> ParameterServer::Digest(uint64_t id) const {
  const std::shared_ptr<ServerJob> job = impl_->Find(id);
  if (job == nullptr) return NoJob(id);
  return job->Digest();
}

ServerJobReport ParameterServer::Report(uint64_t id) const {
  const std::shared_ptr<ServerJob> job = impl_->Find(id);
  if (job != nullptr) return job->Report();
  ServerJobReport report;
  report.set_job(id);
  return report;
}

std::vector<uint64_t> ParameterServer::Jobs() const {
  std::vector<uint64_t> out;
  for (const auto& [id, job] : impl_->All()) out.push_back(id);
  return out;
}

}  // namespace shoal
