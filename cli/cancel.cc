// shoal cancel: ends a job; a checkpoint is written first when the job has a directory for it.
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
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

int Report(const Options& options, const JobStatus& job, bool already) {
  const std::string state = StateName(job.state());
  std::string what = "cancelling: it writes a checkpoint first";
  if (IsFinal(job.state())) what = already ? absl::StrCat("already ", state) : "cancelled";
  Print(options.json, {{"id", job.job()}, {"state", state}, {"cancelled", job.state() == CANCELLED}},
        absl::StrCat("job ", job.job(), ": ", what, "\n"));
  return kOk;
}

int Run(const Options& options) {
  const auto scheduler = options.scheduler.Connect();
  if (!scheduler.ok()) return Fail(scheduler.status());
  const absl::StatusOr<uint64_t> job = FindJob(scheduler->get(), options.job, kCallTimeout);
  if (!job.ok()) return Fail(job.status());
  GetJobRequest get;
  get.set_job(*job);
  const absl::StatusOr<JobStatus> before = (*scheduler)->GetJob(get, kCallTimeout);
  if (!before.ok()) return Fail(before.status());
  if (IsFinal(before->state())) return Report(options, *before, true);
  JobRef ref;
  ref.set_job(*job);
  const absl::StatusOr<Empty> done = (*scheduler)->Cancel(ref, kCallTimeout);
  if (!done.ok()) return Fail(done.status());
  const absl::StatusOr<JobStatus> after = (*scheduler)->GetJob(get, kCallTimeout);
  if (!after.ok()) return Fail(after.status());
  return Report(options, *after, IsFinal(after->state()) && after->state() != CANCELLED);
}

}  // namespace

void AddCancel(CLI::App* root, Action* action) {
  auto options = std::make_shared<Options>();
  CLI::App* const verb = AddVerb(root, "cancel", "Cancel a job; it writes a checkpoint first if it has a directory",
                                 "shoal cancel 3 --scheduler 127.0.0.1:7070");
  options->scheduler.AddTo(verb);
  verb->add_option("job", options->job, "Number or name of the job")->required()->type_name("JOB");
  AddJson(verb, &options->json);
  verb->callback([options, action] { *action = [options] { return Run(*options); }; });
}

}  // namespace shoal::cli
