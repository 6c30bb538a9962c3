// shoal validate: checks a job file completely and shows what it means.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "cli/options.h"
#include "local/preflight.h"
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
  const absl::StatusOr<Preflight> here = CheckJobHere(*job);
  if (!here.ok()) return Fail(here.status());
  // A cluster's inputs need not be here, so this is no error; but nobody may take "valid" for "will run".
  for (const std::string& line : here->missing) std::fprintf(stderr, "shoal: missing here: %s\n", line.c_str());
  if (!here->missing.empty()) {
    std::fputs("shoal: `train` would fail on this machine; a cluster needs them under these paths on each worker\n",
               stderr);
  }
  const nlohmann::ordered_json json = {{"job", job->name()},        {"valid", true},
                                       {"digest", JobDigest(*job)}, {"warnings", here->warnings},
                                       {"missing", here->missing},  {"not_checked", here->not_checked}};
  std::string text = absl::StrCat(options.job.path, ": valid (job ", job->name(), ")",
                                  here->missing.empty() ? "" : ", but inputs are missing here", "\n");
  for (const std::string& line : here->warnings) absl::StrAppend(&text, "  warning: ", line, "\n");
  for (const std::string& line : here->not_checked) absl::StrAppend(&text, "  not checked: ", line, "\n");
  Print(options.json, json, options.resolved ? ResolvedYaml(*job) : text);
  return kOk;
}

}  // namespace

void AddValidate(CLI::App* root, Action* action) {
  auto options = std::make_shared<Options>();
  CLI::App* const verb = AddVerb(
      root, "validate", "Check a job file, its inputs and its model as far as this machine can; names every error",
      "shoal validate examples/census/job.yaml --set batch.size=512");
  options->job.AddTo(verb);
  AddJson(verb, &options->json);
  verb->add_flag("--resolved", options->resolved, "Print the job with every default filled in");
  verb->callback([options, action] { *action = [options] { return Run(*options); }; });
}

}  // namespace shoal::cli
