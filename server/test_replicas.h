// For tests: the network between the servers of one process, with faults.
#ifndef SHOAL_SERVER_TEST_REPLICAS_H_
#define SHOAL_SERVER_TEST_REPLICAS_H_

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "server/parameter_server.h"

namespace shoal {

enum class ReplicaFate { kDeliver, kLoseRequest, kLoseReply, kDouble, kReplayOlder };

// One of the first four draws, 0 to 3, is a fault; any other: delivered.
inline ReplicaFate FateOf(uint64_t draw) {
  switch (draw) {
    case 0:
      return ReplicaFate::kLoseRequest;
    case 1:
      return ReplicaFate::kLoseReply;
    case 2:
      return ReplicaFate::kDouble;
    case 3:
      return ReplicaFate::kReplayOlder;
    default:
      return ReplicaFate::kDeliver;
  }
}

// Clients whose calls are answered at once by `send`, which must outlive them.
using ReplicaSend = std::function<absl::StatusOr<ReplicaReply>(uint64_t process, const ReplicaRequest&)>;
inline ReplicaConnector ConnectorOf(ReplicaSend send) {
  class Client : public ReplicaClient {
   public:
    Client(ReplicaSend send, uint64_t process) : send_(std::move(send)), process_(process) {}
    void Replicate(const ReplicaRequest& request, absl::Duration, Done done) override {
      done(send_(process_, request));
    }

   private:
    const ReplicaSend send_;
    const uint64_t process_;
  };
  return [send = std::move(send)](const ServerAddress& address) -> absl::StatusOr<std::unique_ptr<ReplicaClient>> {
    return std::unique_ptr<ReplicaClient>(new Client(send, address.process()));
  };
}

// Delivers at once, on the caller's thread. Not thread-safe.
class ReplicaNetwork {
 public:
  void Add(uint64_t process, ParameterServer* server) { servers_[process] = server; }
  void Kill(uint64_t process) { servers_.erase(process); }
  // How a message reaches a server; empty: a direct call.
  ReplicaSend transport;
  // What happens to each message; empty: it is delivered.
  std::function<ReplicaFate(const ReplicaRequest&)> fate;
  uint64_t messages() const { return messages_; }

  ReplicaConnector Connector() {
    return ConnectorOf([this](uint64_t process, const ReplicaRequest& request) { return Send(process, request); });
  }

 private:
  absl::StatusOr<ReplicaReply> Send(uint64_t process, const ReplicaRequest& request) {
    ++messages_;
    const ReplicaFate now = fate ? fate(request) : ReplicaFate::kDeliver;
    const auto it = servers_.find(process);
    if (it == servers_.end() || now == ReplicaFate::kLoseRequest) return absl::UnavailableError("request lost");
    if (now == ReplicaFate::kReplayOlder && !older_.empty()) {
      const auto& [target, message] = older_[messages_ % older_.size()];
      if (servers_.count(target) != 0) (void)Deliver(target, message);
    }
    if (fate) older_.emplace_back(process, request);
    absl::StatusOr<ReplicaReply> reply = Deliver(process, request);
    if (now == ReplicaFate::kDouble) reply = Deliver(process, request);
    if (now == ReplicaFate::kLoseReply) return absl::UnavailableError("reply lost");
    return reply;
  }

  absl::StatusOr<ReplicaReply> Deliver(uint64_t process, const ReplicaRequest& request) {
    return transport ? transport(process, request) : servers_[process]->Replicate(request);
  }

  std::map<uint64_t, ParameterServer*> servers_;
  std::vector<std::pair<uint64_t, ReplicaRequest>> older_;
  uint64_t messages_ = 0;
};

}  // namespace shoal

#endif  // SHOAL_SERVER_TEST_REPLICAS_H_
