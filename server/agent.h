// Ties a ParameterServer to the cluster: registers it, sends heartbeats, follows the view, does the scheduler's tasks.
#ifndef SHOAL_SERVER_AGENT_H_
#define SHOAL_SERVER_AGENT_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/scheduler_client.h"
#include "server/parameter_server.h"

namespace shoal {

struct ServerAgentOptions {
  std::string name;     // empty: the scheduler makes one up
  std::string address;  // of the data plane, as workers reach it
  ParameterServer* server = nullptr;
  SchedulerClient* scheduler = nullptr;
};

// Thread-safe. Owns threads: one watches, a few do tasks, one sends heartbeats and ticks.
class ServerAgent {
 public:
  // Registers; UNAVAILABLE with what to check when the scheduler cannot be reached within `timeout`.
  static absl::StatusOr<std::unique_ptr<ServerAgent>> Start(const ServerAgentOptions& options, absl::Duration timeout);
  ~ServerAgent();  // Kill, then joins

  // Leaves the cluster.
  absl::Status Leave(absl::Duration grace);
  // Stops at once and tells nobody (tests).
  void Kill();
  // True when the scheduler ended this server: told to shut down (OK) or fenced (the reason).
  bool Ended(absl::Status* reason) const;
  const std::string& name() const;
  uint64_t process() const;

 private:
  class Impl;
  explicit ServerAgent(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace shoal

#endif  // SHOAL_SERVER_AGENT_H_
