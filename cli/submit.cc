// shoal submit: gives a job to a cluster.
#include <cstdio>
#include <nlohmann/json.hpp>
#include <optional>

#include "absl/strings/str_cat.h"
#include "cli/job_runs.h"
#include "cli/options.h"
#include "local/connection.h"
#include "local/preflight.h"

namespace shoal::cli {
namespace {

struct Options {
  JobOptions job;
  SchedulerOption scheduler;
  bool wait = false;
  std::string resume;
  std::string runs = "runs";
  bool json = false;
};

int Wait(const Options& options, const Job& job, uint64_t id, SchedulerClient* scheduler, const StopSignals& stop) {
  std::unique_ptr<RunFolder> folder;
  if (!options.runs.empty()) {
    absl::StatusOr<std::unique_ptr<RunFolder>> made = RunFolder::Create(options.runs, absl::StrCat(id), job);
    if (!made.ok()) return Fail(made.status());
    folder = *std::move(made);
  }
  ProgressLine progress(false);
  const absl::StatusOr<JobStatus> status = WaitForJob(scheduler, id, Observe(&progress, folder.get(), &stop.stopped()));
  progress.Finish();
  return ReportEnd(status, options.json);
}

int Run(const Options& options) {
  const absl::StatusOr<Job> job = options.job.Load();
  if (!job.ok()) return Fail(job.status());
  // Before the client's threads, which would otherwise take the signals and end the process.
  std::optional<StopSignals> stop;
  if (options.wait) stop.emplace();
  const absl::StatusOr<std::vector<std::string>> unseen = CheckStart(*job, options.resume);
  if (!unseen.ok()) return Fail(unseen.status());
  for (const std::string& line : *unseen) {
    std::fprintf(stderr, "%s; the job fails unless the servers have it under this path\n", line.c_str());
  }
  const auto scheduler = options.scheduler.Connect();
  if (!scheduler.ok()) return Fail(scheduler.status());
  PrintEffectiveBatch(*job);
  if (stop.has_value() && stop->stopped()) return Fail(absl::CancelledError("stopped before the job was submitted"));
  const absl::StatusOr<uint64_t> id = SubmitJob(scheduler->get(), *job, options.resume, kCallTimeout);
  if (!id.ok()) return Fail(id.status());
  if (options.wait) return Wait(options, *job, *id, scheduler->get(), *stop);
  Print(options.json, {{"job", job->name()}, {"id", *id}}, absl::StrCat("job ", *id, ": ", job->name(), "\n"));
  return kOk;
}

}  // namespace

void AddSubmit(CLI::App* root, Action* action) {
  auto options = std::make_shared<Options>();
  CLI::App* const verb = AddVerb(root, "submit", "Give a job to a cluster; with --wait, see it through",
                                 "shoal submit examples/census/job.yaml --wait --scheduler 127.0.0.1:7070");
  options->job.AddTo(verb);
  options->scheduler.AddTo(verb);
  verb->add_flag("--wait", options->wait, "Wait for the job's end; SIGINT then cancels it");
  AddResume(verb, &options->resume);
  AddRuns(verb, &options->runs);
  AddJson(verb, &options->json);
  verb->callback([options, action] { *action = [options] { return Run(*options); }; });
}

}  // namespace shoal::cli
