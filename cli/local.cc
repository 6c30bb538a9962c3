// shoal local: a cluster of real processes on this machine, for as long as this command runs.
#include <cstdio>

#include "cli/job_runs.h"
#include "cli/options.h"
#include "local/connection.h"
#include "local/process_cluster.h"

namespace shoal::cli {
namespace {

struct Options {
  ProcessClusterOptions cluster;
  ListenOptions listen;
  JobOptions job;
  absl::Duration grace_period = absl::Seconds(10);
  std::string runs = "runs";
  bool json = false;
};

// Until a stop signal or until a process has ended by itself.
int Idle(ProcessCluster* cluster, StopSignals* stop) {
  while (!stop->WaitFor(absl::Milliseconds(200))) {
    const absl::Status status = cluster->Check();
    if (!status.ok()) return Fail(status);
  }
  return kOk;
}

int RunOneJob(const Options& options, const Job& job, const ProcessCluster& cluster, StopSignals* stop) {
  const auto scheduler = ConnectScheduler(cluster.scheduler(), absl::Seconds(10));
  if (!scheduler.ok()) return Fail(scheduler.status());
  std::unique_ptr<RunFolder> folder;
  if (!options.runs.empty()) {
    absl::StatusOr<std::unique_ptr<RunFolder>> made = RunFolder::Create(options.runs, RunFolder::NewId(), job);
    if (!made.ok()) return Fail(made.status());
    folder = *std::move(made);
  }
  PrintEffectiveBatch(job);
  ProgressLine progress(false);
  const absl::StatusOr<JobStatus> status =
      RunJob(scheduler->get(), job, Observe(&progress, folder.get(), &stop->stopped()));
  progress.Finish();
  return ReportEnd(status, options.json);
}

int Run(const Options& options) {
  ProcessClusterOptions cluster_options = options.cluster;
  const absl::Status listen = CheckListen(options.listen);
  if (!listen.ok()) return UsageError(listen);
  cluster_options.listen = options.listen.address;
  cluster_options.insecure = options.listen.insecure;
  absl::StatusOr<Job> job = Job();
  if (!options.job.path.empty()) {
    job = options.job.Load();
    if (!job.ok()) return Fail(job.status());
  } else if (!options.job.overrides.empty()) {
    return UsageError(absl::InvalidArgumentError("--set needs --job"));
  }
  StopSignals stop;
  const absl::StatusOr<std::unique_ptr<ProcessCluster>> cluster = ProcessCluster::Start(cluster_options);
  if (!cluster.ok()) return Fail(cluster.status());
  // With --job stdout belongs to the result.
  std::FILE* const out = options.job.path.empty() ? stdout : stderr;
  std::fprintf(out, "listening on %s\n", (*cluster)->scheduler().c_str());
  std::fflush(out);
  const int status =
      options.job.path.empty() ? Idle(cluster->get(), &stop) : RunOneJob(options, *job, **cluster, &stop);
  (*cluster)->Stop(options.grace_period);
  return status;
}

}  // namespace

void AddLocal(CLI::App* root, Action* action) {
  auto options = std::make_shared<Options>();
  CLI::App* const verb = AddVerb(root, "local",
                                 "Start a cluster of processes on this machine and tear it down at the end; prints "
                                 "\"listening on HOST:PORT\" with the scheduler's address when all have joined",
                                 "shoal local --servers 2 --workers 3 --job examples/census/job.yaml");
  verb->add_option("--servers", options->cluster.servers, "Servers")->check(CLI::Range(0, 256))->capture_default_str();
  verb->add_option("--workers", options->cluster.workers, "Workers")->check(CLI::Range(0, 256))->capture_default_str();
  verb->add_option("--threads", options->cluster.threads, "Lanes per worker")
      ->check(Whole(1, 4096))
      ->capture_default_str();
  verb->add_option("--state", options->cluster.state_path, "SQLite file of the scheduler")->type_name("FILE");
  AddListen(verb, &options->listen);
  AddDuration(verb, "--heartbeat", &options->cluster.heartbeat, "How often servers and workers show that they live");
  AddDuration(verb, "--deadline", &options->cluster.deadline, "Silence after which one of them counts as dead");
  AddDuration(verb, "--grace-period", &options->grace_period, "Longest time for each kind of process to end");
  verb->add_option("--job", options->job.path, "Run this job, print its result and end")->type_name("JOB");
  options->job.AddOverridesTo(verb);
  AddRuns(verb, &options->runs);
  AddJson(verb, &options->json);
  verb->callback([options, action, root] {
    // The children log like their parent.
    options->cluster.log_level = root->get_option("--log-level")->as<std::string>();
    options->cluster.log_json = root->get_option("--log-json")->as<bool>();
    *action = [options] { return Run(*options); };
  });
}

}  // namespace shoal::cli
