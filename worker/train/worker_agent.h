// A worker: joins the cluster, runs its lanes, does the scheduler's tasks, leaves.
#ifndef SHOAL_WORKER_TRAIN_WORKER_AGENT_H_
#define SHOAL_WORKER_TRAIN_WORKER_AGENT_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "proto/scheduler.pb.h"
#include "proto/scheduler_client.h"
#include "worker/client/parameter_client.h"

namespace shoal {

struct WorkerOptions {
  std::string name;      // empty: the scheduler makes one up
  uint32_t threads = 1;  // lanes
  SchedulerClient* scheduler = nullptr;
  // Connects to a server of a job's map. Called once per server and job.
  std::function<absl::StatusOr<std::unique_ptr<ParameterClient>>(const ServerAddress&)> connect;
  const Clock* clock = &Clock::Steady();
  // Longest wait for a server's answer to a push or to the opening of a split before it is sent again.
  absl::Duration request_timeout = absl::Seconds(10);
  // How long a lane goes on retrying against a server without memory before the job fails ...
  absl::Duration retry_limit = absl::Seconds(30);
  // ... and against one that cannot be reached before it gives its split back. Longer than a restart takes; a dead
  // server is noticed earlier, by the newer map.
  absl::Duration reach_limit = absl::Seconds(10);
  // Ask for the rows of the next batch while this one is computed, where the job allows it (sync.asp.pull_ahead). Pays
  // off when a pull crosses a network; costs one batch of staleness.
  bool pull_ahead = true;
  // Told, in one line, what hinders a lane without being an error of the job: a server that only this worker cannot
  // reach. May be empty; called on the lanes' threads.
  std::function<void(const std::string&)> warn;
  // Tests: called by a lane before each batch; may block, to stop a lane.
  std::function<void(uint32_t thread, uint64_t batches_finished)> before_batch;
};

// Thread-safe. Owns its threads: one per lane, one that watches, one that sends heartbeats.
class WorkerAgent {
 public:
  // Registers; UNAVAILABLE with what to check when the scheduler cannot be reached within `timeout`.
  static absl::StatusOr<std::unique_ptr<WorkerAgent>> Start(const WorkerOptions& options, absl::Duration timeout);
  ~WorkerAgent();  // Kill, then joins

  // Lanes finish their batch and return the rest of their splits; then the worker leaves. OK when done in time.
  absl::Status Drain(absl::Duration grace);
  // Stops at once and tells nobody, as kill -9 would (tests).
  void Kill();
  // True when the scheduler ended this worker: told to shut down (OK) or fenced (the reason).
  bool Ended(absl::Status* reason) const;
  const std::string& name() const;

 private:
  class Impl;
  explicit WorkerAgent(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_TRAIN_WORKER_AGENT_H_
