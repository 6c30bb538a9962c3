// Room at the backups for what a push is about to add.
#ifndef SHOAL_SERVER_BACKUP_ROOM_H_
#define SHOAL_SERVER_BACKUP_ROOM_H_

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "proto/wire/parameter_messages.h"
#include "server/owner_map.h"
#include "server/replication/replica_stream.h"
#include "server/store/job_schema.h"

namespace shoal {

// What one push has taken, by backup. Not thread-safe.
class BackupRoom {
 public:
  // Before the push is applied, so that none is that its backup cannot take. RESOURCE_EXHAUSTED, and nothing is taken,
  // when one has too little. Backups without a limit cost nothing.
  absl::Status Take(const JobSchema& schema, const PushRequest& request, const OwnerMap& map);
  // The push has been applied, as far as it was: the room is given back when the backups have reached these marks.
  // REQUIRES: called once after each Take.
  void Pin(const std::vector<ReplicaMark>& marks);

 private:
  std::vector<std::pair<std::shared_ptr<ReplicaStream>, uint64_t>> taken_;
};

}  // namespace shoal

#endif  // SHOAL_SERVER_BACKUP_ROOM_H_
