// shoal server: the daemon that holds parameters.
#include "cli/options.h"

namespace shoal::cli {
namespace {

struct Options {
  ServerDaemonOptions daemon;
  SchedulerOption scheduler;
};

int Run(const Options& options) {
  ServerDaemonOptions daemon = options.daemon;
  daemon.scheduler = options.scheduler.address;
  daemon.connect_timeout = options.scheduler.connect_timeout;
  const absl::Status listen = CheckListen(daemon.listen);
  if (!listen.ok()) return UsageError(listen);
  StopSignals stop;
  const absl::Status status = RunServerDaemon(daemon, &stop);
  return status.ok() ? kOk : Fail(status);
}

}  // namespace

void AddServer(CLI::App* root, Action* action) {
  auto options = std::make_shared<Options>();
  CLI::App* const verb =
      AddVerb(root, "server", "Run a parameter server; prints one line \"listening on HOST:PORT\" when it has joined",
              "shoal server --scheduler 127.0.0.1:7070 --name server-1");
  options->scheduler.AddTo(verb);
  AddListen(verb, &options->daemon.listen);
  verb->add_option("--advertise", options->daemon.listen.advertise,
                   "Address by which workers reach this server; default: the one it listens on")
      ->type_name("HOST[:PORT]");
  verb->add_option("--name", options->daemon.name, "Unique in the cluster; default: from machine and process");
  AddDuration(verb, "--grace-period", &options->daemon.grace_period,
              "Longest time to hand partitions over after SIGTERM, SIGINT, SIGUSR1 or SIGUSR2; 0s: leave at once");
  AddSpot(verb, &options->daemon.spot);
  verb->callback([options, action] { *action = [options] { return Run(*options); }; });
}

}  // namespace shoal::cli
