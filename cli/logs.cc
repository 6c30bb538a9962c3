// shoal logs: what happened to a job.
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
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
  JobRef ref;
  ref.set_job(*job);
  const absl::StatusOr<JobLogs> logs = (*scheduler)->Logs(ref, kCallTimeout);
  if (!logs.ok()) return Fail(logs.status());
  nlohmann::ordered_json lines = nlohmann::ordered_json::array();
  std::string text;
  for (const std::string& line : logs->lines()) {
    lines.push_back(line);
    absl::StrAppend(&text, line, "\n");
  }
  Print(options.json, {{"id", *job}, {"lines", lines}}, text);
  return kOk;
}

}  // namespace

void AddLogs(CLI::App* root, Action* action) {
  auto options = std::make_shared<Options>();
  CLI::App* const verb = AddVerb(root, "logs", "Show the last events of a job, each with its time",
                                 "shoal logs census-wide-deep --scheduler 127.0.0.1:7070");
  options->scheduler.AddTo(verb);
  verb->add_option("job", options->job, "Number or name of the job")->required()->type_name("JOB");
  AddJson(verb, &options->json);
  verb->callback([options, action] { *action = [options] { return Run(*options); }; });
}

}  // namespace shoal::cli
