// shoal train: a job in this one process, without a cluster.
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/job_runs.h"
#include "cli/options.h"
#include "local/local_cluster.h"
#include "local/preflight.h"

namespace shoal::cli {
namespace {

struct Options {
  JobOptions job;
  uint32_t threads = 1;
  std::string output;
  std::string runs = "runs";
  std::string resume;
  bool overwrite = false;
  bool json = false;
};

void SetOutput(const std::string& dir, Job* job) {
  if (dir.empty()) return;
  Checkpoint* const checkpoint = job->mutable_checkpoint();
  const std::filesystem::path path = std::filesystem::absolute(dir).lexically_normal();
  // "out/" is "out".
  checkpoint->set_dir((path.has_filename() ? path : path.parent_path()).string());
  if (checkpoint->keep() == 0) checkpoint->set_keep(1);
}

// Whether the run can begin and may write where it is to; everything that it needs is on this machine.
absl::Status Check(const Options& options, const Job& job) {
  if (job.has_checkpoint() && !options.overwrite) {
    const absl::Status free =
        CheckOutput(options.output.empty() ? "checkpoint.dir" : "--output", job.checkpoint().dir(), options.resume);
    if (!free.ok()) return free;
  }
  const absl::StatusOr<std::vector<std::string>> unseen = CheckStart(job, options.resume);
  if (!unseen.ok()) return unseen.status();
  return unseen->empty() ? absl::OkStatus() : absl::NotFoundError(unseen->front());
}

// Here is one worker and never a second: a job that waits for more would wait for ever.
void StartWithOneWorker(Job* job) {
  if (job->workers().min() <= 1) return;
  std::fprintf(stderr, "workers.min: %u: train is one worker, so the job starts with 1\n", job->workers().min());
  job->mutable_workers()->set_min(1);
}

int Run(const Options& options) {
  absl::StatusOr<Job> job = options.job.Load();
  if (!job.ok()) return Fail(job.status());
  SetOutput(options.output, &*job);
  const absl::Status checked = Check(options, *job);
  if (!checked.ok()) return Fail(checked);
  StartWithOneWorker(&*job);
  StopSignals stop;
  std::unique_ptr<RunFolder> folder;
  if (!options.runs.empty()) {
    absl::StatusOr<std::unique_ptr<RunFolder>> made = RunFolder::Create(options.runs, RunFolder::NewId(), *job);
    if (!made.ok()) return Fail(made.status());
    folder = *std::move(made);
  }
  LocalClusterOptions cluster_options;
  cluster_options.threads = options.threads;
  const absl::StatusOr<std::unique_ptr<LocalCluster>> cluster = LocalCluster::Start(cluster_options);
  if (!cluster.ok()) return Fail(cluster.status());
  PrintEffectiveBatch(*job);
  ProgressLine progress(false);
  RunJobOptions run = Observe(&progress, folder.get(), &stop.stopped());
  run.restore_from = options.resume;
  const absl::StatusOr<JobStatus> status = RunJob((*cluster)->scheduler(), *job, run);
  progress.Finish();
  return ReportEnd(status, options.json);
}

}  // namespace

void AddTrain(CLI::App* root, Action* action) {
  auto options = std::make_shared<Options>();
  CLI::App* const verb = AddVerb(root, "train", "Train a job in this one process",
                                 "shoal train examples/census/job.yaml --threads 2 --set data.passes=2 --output model");
  options->job.AddTo(verb);
  verb->add_option("--threads", options->threads, "Lanes that compute at the same time")
      ->check(Whole(1, 4096))
      ->capture_default_str();
  verb->add_option("--output", options->output, "Directory for the final model; replaces the job's checkpoint.dir")
      ->type_name("DIR");
  verb->add_flag("--overwrite", options->overwrite,
                 "Let the model take the place of what an earlier run left in --output or checkpoint.dir");
  AddResume(verb, &options->resume);
  AddRuns(verb, &options->runs);
  AddJson(verb, &options->json);
  verb->callback([options, action] { *action = [options] { return Run(*options); }; });
}

}  // namespace shoal::cli
