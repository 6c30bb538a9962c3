// How one server reaches another. Variants: GrpcReplicaClient (server/rpc), LocalReplicaClient (local/).
#ifndef SHOAL_SERVER_REPLICATION_REPLICA_CLIENT_H_
#define SHOAL_SERVER_REPLICATION_REPLICA_CLIENT_H_

#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/replication.pb.h"
#include "proto/scheduler.pb.h"

namespace shoal {

// Largest sum of bytes of the pieces of one message: a bulk copy must not hold up the messages behind it.
inline constexpr uint64_t kReplicaMessageBytes = uint64_t{4} << 20;

// Thread-safe. Several calls may be under way at once; `done` runs exactly once, on any thread, perhaps before
// Replicate returns. An error says nothing about whether the server acted: calls may be repeated as they are.
class ReplicaClient {
 public:
  using Done = std::function<void(absl::StatusOr<ReplicaReply>)>;

  virtual ~ReplicaClient() = default;
  virtual void Replicate(const ReplicaRequest& request, absl::Duration timeout, Done done) = 0;
};

// Opens a way to a server; fails only for an address that cannot be one.
using ReplicaConnector = std::function<absl::StatusOr<std::unique_ptr<ReplicaClient>>(const ServerAddress&)>;

}  // namespace shoal

#endif  // SHOAL_SERVER_REPLICATION_REPLICA_CLIENT_H_
