// The three daemons as functions that return when the process should end.
#ifndef SHOAL_LOCAL_DAEMONS_H_
#define SHOAL_LOCAL_DAEMONS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "local/stop_signals.h"

namespace shoal {

struct ListenOptions {
  std::string address = "127.0.0.1:0";
  bool insecure = false;  // allows an address that other machines can reach
  std::string advertise;  // servers: HOST or HOST:PORT by which workers reach it; empty: the address itself
};

// INVALID_ARGUMENT or FAILED_PRECONDITION (bad usage) when the daemon could not listen like that.
absl::Status CheckListen(const ListenOptions& options);

struct SchedulerDaemonOptions {
  ListenOptions listen;
  std::string state_path;  // SQLite file; empty: nothing survives a restart
  absl::Duration heartbeat = absl::Milliseconds(500);
  absl::Duration deadline = absl::Seconds(3);
};

struct ServerDaemonOptions {
  ListenOptions listen;
  std::string name;  // empty: made from machine and process
  std::string scheduler;
  absl::Duration connect_timeout = absl::Seconds(10);
  absl::Duration grace_period = absl::Seconds(10);
};

struct WorkerDaemonOptions {
  std::string name;      // empty: made from machine and process
  uint32_t threads = 1;  // lanes
  std::string scheduler;
  absl::Duration connect_timeout = absl::Seconds(10);
  absl::Duration grace_period = absl::Seconds(10);
};

// Each runs its daemon and prints one line on stdout when it is ready: "listening on HOST:PORT", or
// "worker NAME joined HOST:PORT". Returns OK after a stop signal (worker: drained; server: left the cluster) or when
// the scheduler shuts the cluster down; else why the daemon could not start or go on (fenced, for instance).
absl::Status RunSchedulerDaemon(const SchedulerDaemonOptions& options, StopSignals* stop);
absl::Status RunServerDaemon(const ServerDaemonOptions& options, StopSignals* stop);
absl::Status RunWorkerDaemon(const WorkerDaemonOptions& options, StopSignals* stop);

}  // namespace shoal

#endif  // SHOAL_LOCAL_DAEMONS_H_
