// shoal watch: follows a job until it ends.
#include <nlohmann/json.hpp>

#include "cli/job_runs.h"
#include "cli/options.h"
#include "local/connection.h"

namespace shoal::cli {
namespace {

struct Options {
  SchedulerOption scheduler;
  std::string job;
  bool json = false;
};

int Run(const Options& options) {
  const auto scheduler = options.scheduler.Connect();
  if (!scheduler.ok()) return Fail(scheduler.status());
  const absl::StatusOr<uint64_t> job = FindJob(scheduler->get(), options.job, kCallTimeout);
  if (!job.ok()) return Fail(job.status());
  ProgressLine progress(true);
  const absl::StatusOr<JobStatus> status = WaitForJob(scheduler->get(), *job, Observe(&progress, nullptr, nullptr));
  progress.Finish();
  return ReportEnd(status, options.json);
}

}  // namespace

void AddWatch(CLI::App* root, Action* action) {
  auto options = std::make_shared<Options>();
  CLI::App* const verb = AddVerb(root, "watch", "Follow a job until it ends, then print its result",
                                 "shoal watch census-wide-deep --scheduler 127.0.0.1:7070");
  options->scheduler.AddTo(verb);
  verb->add_option("job", options->job, "Number or name of the job")->required()->type_name("JOB");
  AddJson(verb, &options->json);
  verb->callback([options, action] { *action = [options] { return Run(*options); }; });
}

}  // namespace shoal::cli
