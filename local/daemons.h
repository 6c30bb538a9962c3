// The three daemons as functions that return when the process should end.
#ifndef SHOAL_LOCAL_DAEMONS_H_
#define SHOAL_LOCAL_DAEMONS_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "local/spot_notices.h"
#include "local/stop_signals.h"
#include "proto/scheduler.pb.h"
#include "worker/client/parameter_client.h"

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
  absl::Duration grace_period = absl::Seconds(30);  // zero: leaves at once, partitions and all
  SpotOptions spot;
};

struct WorkerDaemonOptions {
  std::string name;      // empty: made from machine and process
  uint32_t threads = 1;  // lanes
  std::string scheduler;
  absl::Duration connect_timeout = absl::Seconds(10);
  absl::Duration grace_period = absl::Seconds(30);
  SpotOptions spot;
  // Tests: wraps each connection to a server (faults), and WorkerOptions::before_batch.
  std::function<std::unique_ptr<ParameterClient>(const ServerAddress&, std::unique_ptr<ParameterClient>)> wrap;
  std::function<void(uint32_t thread, uint64_t batches_finished)> before_batch;
};

// Each runs its daemon and prints one line on stdout when it is ready: "listening on HOST:PORT", or
// "worker NAME joined HOST:PORT". Returns OK after a stop signal or a spot notice (worker: its lanes finished their
// batch and gave back the rest; server: its partitions are elsewhere, or the time for that is over) or when the
// scheduler tells it to go; else why the daemon could not start or go on (fenced, for instance).
absl::Status RunSchedulerDaemon(const SchedulerDaemonOptions& options, StopSignals* stop);
absl::Status RunServerDaemon(const ServerDaemonOptions& options, StopSignals* stop);
absl::Status RunWorkerDaemon(const WorkerDaemonOptions& options, StopSignals* stop);

}  // namespace shoal

#endif  // SHOAL_LOCAL_DAEMONS_H_
