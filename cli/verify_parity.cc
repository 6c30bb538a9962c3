// shoal verify-parity: the same bits on one thread, several threads and several processes.
#include <cstdio>

#include "cli/job_runs.h"
#include "cli/options.h"
#include "local/parity.h"

namespace shoal::cli {
namespace {

struct Options {
  JobOptions job;
  bool json = false;
};

int Run(const Options& options) {
  const absl::StatusOr<Job> job = options.job.Load();
  if (!job.ok()) return Fail(job.status());
  PrintEffectiveBatch(*job);
  StopSignals stop;
  const absl::StatusOr<ParityResult> result = VerifyParity(*job, &stop.stopped());
  if (!result.ok()) return Fail(result.status());
  const std::string text = options.json ? ParityJson(job->name(), *result) + "\n" : ParityText(*result);
  std::fputs(text.c_str(), stdout);
  return result->equal ? kOk : kFailed;
}

}  // namespace

void AddVerifyParity(CLI::App* root, Action* action) {
  auto options = std::make_shared<Options>();
  CLI::App* const verb = AddVerb(root, "verify-parity",
                                 "Train a bsp job on 1 thread, 4 threads and 2 processes x 2 threads and compare the "
                                 "bits of the parameters; exits with 0 when they are equal",
                                 "shoal verify-parity examples/census/job.yaml --set sync.bsp.lanes=4");
  options->job.AddTo(verb);
  AddJson(verb, &options->json);
  verb->callback([options, action] { *action = [options] { return Run(*options); }; });
}

}  // namespace shoal::cli
