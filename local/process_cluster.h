// A whole cluster of real processes on this machine: what `shoal local` and `shoal verify-parity` run.
#ifndef SHOAL_LOCAL_PROCESS_CLUSTER_H_
#define SHOAL_LOCAL_PROCESS_CLUSTER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace shoal {

struct ProcessClusterOptions {
  int servers = 1;
  int workers = 1;
  uint32_t threads = 1;                // lanes per worker
  std::string listen = "127.0.0.1:0";  // of the scheduler
  bool insecure = false;               // allows an address that other machines can reach
  std::string state_path;              // scheduler --state; empty: in memory
  absl::Duration heartbeat = absl::Milliseconds(500);
  absl::Duration deadline = absl::Seconds(3);
  absl::Duration start_timeout = absl::Seconds(30);  // until every process has joined
  std::string log_level = "info";
  bool log_json = false;
};

// Owns one scheduler, the servers and the workers, all children that run this very binary. Their output goes to stderr,
// each line with the process's name before it. The children die with the thread that called Start (PR_SET_PDEATHSIG),
// so that call belongs on the main thread. Not thread-safe.
class ProcessCluster {
 public:
  // Returns when all have joined; on error none is left behind.
  static absl::StatusOr<std::unique_ptr<ProcessCluster>> Start(const ProcessClusterOptions& options);
  ~ProcessCluster();  // Stop with a grace of 0

  // HOST:PORT of the scheduler.
  const std::string& scheduler() const { return scheduler_; }
  // OK while all children run, but for servers and workers that were drained; else which one has ended, and how.
  absl::Status Check();
  // SIGTERM to workers, then servers, then the scheduler, each group at most `grace` before SIGKILL.
  void Stop(absl::Duration grace);

 private:
  class Child;
  ProcessCluster() = default;
  absl::StatusOr<Child*> Spawn(const std::string& name, const std::vector<std::string>& arguments);
  void StopGroup(const std::string& prefix, absl::Duration grace);

  std::string scheduler_;
  std::vector<std::unique_ptr<Child>> children_;
};

}  // namespace shoal

#endif  // SHOAL_LOCAL_PROCESS_CLUSTER_H_
