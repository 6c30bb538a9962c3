// shoal scheduler: the daemon that hands out data and keeps the cluster together.
#include "cli/options.h"

namespace shoal::cli {
namespace {

int Run(const SchedulerDaemonOptions& options) {
  const absl::Status listen = CheckListen(options.listen);
  if (!listen.ok()) return UsageError(listen);
  StopSignals stop;
  const absl::Status status = RunSchedulerDaemon(options, &stop);
  return status.ok() ? kOk : Fail(status);
}

}  // namespace

void AddScheduler(CLI::App* root, Action* action) {
  auto options = std::make_shared<SchedulerDaemonOptions>();
  CLI::App* const verb =
      AddVerb(root, "scheduler", "Run a scheduler; prints one line \"listening on HOST:PORT\" when it is ready",
              "shoal scheduler --listen 127.0.0.1:7070 --state shoal.db");
  AddListen(verb, &options->listen);
  verb->add_option("--state", options->state_path, "SQLite file that jobs survive a restart in; default: none do")
      ->type_name("FILE");
  AddDuration(verb, "--heartbeat", &options->heartbeat, "How often servers and workers show that they live");
  AddDuration(verb, "--deadline", &options->deadline, "Silence after which one of them counts as dead");
  verb->callback([options, action] { *action = [options] { return Run(*options); }; });
}

}  // namespace shoal::cli
