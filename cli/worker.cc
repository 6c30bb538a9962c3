// shoal worker: the daemon that computes gradients.
#include "cli/options.h"

namespace shoal::cli {
namespace {

struct Options {
  WorkerDaemonOptions daemon;
  SchedulerOption scheduler;
};

int Run(const Options& options) {
  WorkerDaemonOptions daemon = options.daemon;
  daemon.scheduler = options.scheduler.address;
  daemon.connect_timeout = options.scheduler.connect_timeout;
  StopSignals stop;
  const absl::Status status = RunWorkerDaemon(daemon, &stop);
  return status.ok() ? kOk : Fail(status);
}

}  // namespace

void AddWorker(CLI::App* root, Action* action) {
  auto options = std::make_shared<Options>();
  CLI::App* const verb = AddVerb(root, "worker",
                                 "Run a worker; it listens on no port and prints one line "
                                 "\"worker NAME joined HOST:PORT\" when the scheduler has taken it in",
                                 "shoal worker --scheduler 127.0.0.1:7070 --threads 4");
  options->scheduler.AddTo(verb);
  verb->add_option("--threads", options->daemon.threads, "Lanes that compute at the same time")
      ->check(Whole(1, 4096))
      ->capture_default_str();
  verb->add_option("--name", options->daemon.name, "Unique in the cluster; default: from machine and process");
  AddDuration(verb, "--grace-period", &options->daemon.grace_period,
              "Longest time to finish batches and hand back work after SIGTERM, SIGINT, SIGUSR1 or SIGUSR2");
  AddSpot(verb, &options->daemon.spot);
  verb->callback([options, action] { *action = [options] { return Run(*options); }; });
}

}  // namespace shoal::cli
