// A whole cluster in one process: what `shoal train` runs and most cluster tests use.
#ifndef SHOAL_LOCAL_LOCAL_CLUSTER_H_
#define SHOAL_LOCAL_LOCAL_CLUSTER_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/scheduler_client.h"
#include "scheduler/scheduler.h"
#include "server/agent.h"
#include "worker/train/worker_agent.h"

namespace shoal {

struct LocalClusterOptions {
  int servers = 1;
  int workers = 1;
  uint32_t threads = 1;  // lanes per worker
  absl::Duration heartbeat = absl::Milliseconds(500);
  absl::Duration deadline = absl::Seconds(3);
  // Tests: wraps the connection of worker `worker` to a server (faults).
  std::function<std::unique_ptr<ParameterClient>(int worker, std::unique_ptr<ParameterClient>)> wrap;
  // Tests: WorkerOptions::before_batch with the worker's number first.
  std::function<void(int worker, uint32_t thread, uint64_t batches_finished)> before_batch;
  absl::Duration request_timeout = absl::Seconds(10);
  // WorkerOptions::pull_ahead: a direct call has no latency to hide, so this is for tests. The job must allow it, too.
  bool pull_ahead = false;
};

// Direct calls, no serialization. Thread-safe.
class LocalCluster {
 public:
  static absl::StatusOr<std::unique_ptr<LocalCluster>> Start(const LocalClusterOptions& options);
  ~LocalCluster();

  SchedulerClient* scheduler();
  // As if the process got kill -9 / SIGTERM / was started.
  void KillWorker(int worker);
  absl::Status DrainWorker(int worker, absl::Duration grace);
  absl::Status AddWorker();
  // As if the process got kill -9, was started (under this name; its number is the next one), or has ended by itself.
  void KillServer(int server);
  absl::Status AddServer(const std::string& name);
  bool ServerEnded(int server, absl::Status* reason);
  ParameterServer* server(int index);

 private:
  class Impl;
  explicit LocalCluster(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace shoal

#endif  // SHOAL_LOCAL_LOCAL_CLUSTER_H_
