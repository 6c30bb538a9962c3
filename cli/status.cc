// shoal status: the processes and jobs of a cluster, or one job.
#include <nlohmann/json.hpp>

#include "cli/options.h"
#include "local/connection.h"
#include "local/report.h"

namespace shoal::cli {
namespace {

struct Options {
  SchedulerOption scheduler;
  std::string job;
  bool json = false;
};

int RunCluster(const Options& options, SchedulerClient* scheduler) {
  const absl::StatusOr<ClusterStatus> status = scheduler->Status(Empty(), kCallTimeout);
  if (!status.ok()) return Fail(status.status());
  Print(options.json, ClusterJson(*status), ClusterText(*status));
  return kOk;
}

int Run(const Options& options) {
  const auto scheduler = options.scheduler.Connect();
  if (!scheduler.ok()) return Fail(scheduler.status());
  if (options.job.empty()) return RunCluster(options, scheduler->get());
  const absl::StatusOr<uint64_t> job = FindJob(scheduler->get(), options.job, kCallTimeout);
  if (!job.ok()) return Fail(job.status());
  GetJobRequest request;
  request.set_job(*job);
  const absl::StatusOr<JobStatus> status = (*scheduler)->GetJob(request, kCallTimeout);
  if (!status.ok()) return Fail(status.status());
  Print(options.json, JobJson(*status), JobText(*status));
  return kOk;
}

}  // namespace

void AddStatus(CLI::App* root, Action* action) {
  auto options = std::make_shared<Options>();
  CLI::App* const verb = AddVerb(root, "status", "Show the processes and jobs of a cluster, or one job in full",
                                 "shoal status --scheduler 127.0.0.1:7070");
  options->scheduler.AddTo(verb);
  verb->add_option("job", options->job, "Number or name of a job; default: the whole cluster")->type_name("JOB");
  AddJson(verb, &options->json);
  verb->callback([options, action] { *action = [options] { return Run(*options); }; });
}

}  // namespace shoal::cli
