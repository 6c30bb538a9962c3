// shoal list: the jobs of a cluster.
#include <nlohmann/json.hpp>

#include "cli/options.h"
#include "local/report.h"

namespace shoal::cli {
namespace {

struct Options {
  SchedulerOption scheduler;
  bool json = false;
};

int Run(const Options& options) {
  const auto scheduler = options.scheduler.Connect();
  if (!scheduler.ok()) return Fail(scheduler.status());
  const absl::StatusOr<JobList> list = (*scheduler)->ListJobs(Empty(), kCallTimeout);
  if (!list.ok()) return Fail(list.status());
  nlohmann::ordered_json jobs = nlohmann::ordered_json::array();
  for (const JobStatus& job : list->jobs()) jobs.push_back(JobSummaryJson(job));
  Print(options.json, {{"jobs", jobs}}, JobListText(list->jobs()));
  return kOk;
}

}  // namespace

void AddList(CLI::App* root, Action* action) {
  auto options = std::make_shared<Options>();
  CLI::App* const verb = AddVerb(root, "list", "List the jobs of a cluster", "shoal list --scheduler 127.0.0.1:7070");
  options->scheduler.AddTo(verb);
  AddJson(verb, &options->json);
  verb->callback([options, action] { *action = [options] { return Run(*options); }; });
}

}  // namespace shoal::cli
