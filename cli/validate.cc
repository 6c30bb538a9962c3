// shoal validate: checks a job file completely and shows what it means.
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "cli/options.h"
#include "proto/job/job_file.h"

namespace shoal::cli {
namespace {

struct Options {
  JobOptions job;
  bool json = false;
  bool resolved = false;
};

int Run(const Options& options) {
  const absl::StatusOr<Job> job = options.job.Load();
  if (!job.ok()) return Fail(job.status());
  const nlohmann::ordered_json json = {{"job", job->name()}, {"valid", true}, {"digest", JobDigest(*job)}};
  Print(options.json, json,
        options.resolved ? ResolvedYaml(*job) : absl::StrCat(options.job.path, ": valid (job ", job->name(), ")\n"));
  return kOk;
}

}  // namespace

void AddValidate(CLI::App* root, Action* action) {
  auto options = std::make_shared<Options>();
  CLI::App* const verb = AddVerb(root, "validate", "Check a job file; names every error with line and column",
                                 "shoal validate examples/census/job.yaml --set batch.size=512");
  options->job.AddTo(verb);
  AddJson(verb, &options->json);
  verb->add_flag("--resolved", options->resolved, "Print the job with every default filled in");
  verb->callback([options, action] { *action = [options] { return Run(*options); }; });
}

}  // namespace shoal::cli
