// SchedulerCore: what users ask for.
#include <set>

#include "absl/strings/str_cat.h"
#include "scheduler/core.h"
#include "scheduler/jobs/job_check.h"

namespace shoal {
namespace {

// The status lists this many processes that are gone at most.
constexpr size_t kMaxGoneShown = 20;

}  // namespace

void SchedulerCore::GetJobConfig(const JobRef& request, Done<JobConfig> done) {
  const absl::StatusOr<ActiveJob*> job = FindJobOrError(request.job());
  Answer<JobConfig>(std::move(done), job.ok() ? absl::StatusOr<JobConfig>((*job)->Config()) : job.status());
}

void SchedulerCore::Submit(const SubmitRequest& request, Done<SubmitReply> done) {
  SubmitReply reply;
  const auto repeat = request_ids_.find(request.request_id());
  if (!request.request_id().empty() && repeat != request_ids_.end()) {
    reply.set_job(repeat->second);
    Answer<SubmitReply>(std::move(done), std::move(reply));
    return;
  }
  absl::Status status = CheckSubmittedJob(request.job());
  if (status.ok() && request.restore_from() == kLatest && !request.job().has_checkpoint()) {
    status = absl::InvalidArgumentError(
        "checkpoint.dir: missing, the job is to go on from the newest checkpoint there: name it, or a checkpoint");
  }
  if (status.ok()) status = CheckDirectoryFree(request.job());
  if (status.ok() && active_.size() >= options_.max_open_jobs) {
    status = absl::ResourceExhaustedError(
        absl::StrCat("jobs: ", active_.size(), " have not ended, at most ", options_.max_open_jobs, " may"));
  }
  if (shutdown_) status = absl::UnavailableError("the cluster is shutting down");
  if (!status.ok()) {
    Answer<SubmitReply>(std::move(done), status);
    return;
  }
  StoredJob stored;
  stored.set_id(state_->Next(Counter::kJob));
  stored.set_request_id(request.request_id());
  *stored.mutable_job() = request.job();
  stored.set_resume(request.restore_from());
  if (!request.request_id().empty()) request_ids_[request.request_id()] = stored.id();
  reply.set_job(stored.id());
  std::unique_ptr<ActiveJob>& job = jobs_[reply.job()];
  job = std::make_unique<ActiveJob>(context_, std::move(stored));
  active_.push_back(job.get());
  Answer<SubmitReply>(std::move(done), std::move(reply));
}

absl::Status SchedulerCore::CheckDirectoryFree(const Job& job) const {
  if (!job.has_checkpoint()) return absl::OkStatus();
  const std::string dir = PlainDirectory(job.checkpoint().dir());
  for (const ActiveJob* other : active_) {
    if (!other->job().has_checkpoint() || PlainDirectory(other->job().checkpoint().dir()) != dir) continue;
    return absl::FailedPreconditionError(absl::StrCat(
        "checkpoint.dir: ", dir, " is where job ", other->id(), " (", other->job().name(),
        "), which has not ended, writes its checkpoints; two jobs would remove each other's: wait for its end, cancel "
        "it (shoal cancel ",
        other->id(), "), or name another directory"));
  }
  return absl::OkStatus();
}

void SchedulerCore::ListJobs(const Empty& /*request*/, Done<JobList> done) {
  JobList list;
  for (const auto& [id, job] : jobs_) *list.add_jobs() = job->Status(false);
  Answer<JobList>(std::move(done), std::move(list));
}

void SchedulerCore::GetJob(const GetJobRequest& request, Done<JobStatus> done) {
  const absl::StatusOr<ActiveJob*> job = FindJobOrError(request.job());
  if (!job.ok()) {
    Answer<JobStatus>(std::move(done), job.status());
    return;
  }
  get_jobs_.push_back({request.job(), request.known_version(), Until(request.wait_ms()), std::move(done)});
  changes_.jobs = true;  // answered at the end of this very call when there is something new
}

void SchedulerCore::ServeGetJobs() {
  std::vector<ParkedGetJob> still;
  for (ParkedGetJob& parked : get_jobs_) {
    const ActiveJob* const job = FindJob(parked.job);
    if (job == nullptr) {
      Answer<JobStatus>(std::move(parked.done), FindJobOrError(parked.job).status());
    } else if (job->version() == parked.known_version && parked.until > Now()) {
      still.push_back(std::move(parked));
    } else {
      Answer<JobStatus>(std::move(parked.done), job->Status(true));
    }
  }
  get_jobs_ = std::move(still);
}

void SchedulerCore::Cancel(const JobRef& request, Done<Empty> done) {
  const absl::StatusOr<ActiveJob*> job = FindJobOrError(request.job());
  if (job.ok()) (*job)->Cancel();
  Answer<Empty>(std::move(done), job.ok() ? absl::StatusOr<Empty>(Empty()) : job.status());
}

void SchedulerCore::Logs(const JobRef& request, Done<JobLogs> done) {
  const absl::StatusOr<ActiveJob*> job = FindJobOrError(request.job());
  Answer<JobLogs>(std::move(done), job.ok() ? absl::StatusOr<JobLogs>((*job)->Logs()) : job.status());
}

void SchedulerCore::Status(const Empty& /*request*/, Done<ClusterStatus> done) {
  ClusterStatus status;
  status.set_version(jobs_version_);
  const std::set<uint64_t> old = members_.GoneBefore(kMaxGoneShown);
  for (const auto& [id, process] : members_.all()) {
    if (old.count(id) > 0) continue;
    ProcessStatus* const out = status.add_processes();
    out->set_process(id);
    out->set_name(process.info.name());
    out->set_role(process.info.role());
    out->set_address(process.info.address());
    out->set_state(std::string(ProcessStateName(process)));
    out->set_seconds_since_heartbeat(absl::ToDoubleSeconds(Now() - process.last_heartbeat));
    out->set_threads(process.info.threads());
    out->set_cores(process.info.cores());
    out->set_memory_bytes(process.info.memory_bytes());
    out->set_device(process.info.device());
    for (const Unreachable& entry : process.unreachable) {
      const auto server = members_.all().find(entry.server());
      // Who is gone is nobody's to reach any more.
      if (!process.alive() || server == members_.all().end() || !server->second.alive()) continue;
      out->add_unreachable(absl::StrCat(server->second.Title(), " for ", entry.seconds(), " s: ", entry.error()));
    }
  }
  for (const auto& [id, job] : jobs_) *status.add_jobs() = job->Status(false);
  Answer<ClusterStatus>(std::move(done), std::move(status));
}

}  // namespace shoal
