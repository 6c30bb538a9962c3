// Which partitions of a job a server holds, and what it does with each.
#ifndef SHOAL_SERVER_OWNER_MAP_H_
#define SHOAL_SERVER_OWNER_MAP_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/scheduler.pb.h"
#include "server/store/partition.h"

namespace shoal {

class ReplicaStream;

enum class PartitionRole : uint8_t {
  kNone,     // not here
  kServing,  // answers lanes
  kFrozen,   // being handed over: still ours, answers STALE_MAP until the map or the end of the move decides
  kStandby,  // a complete copy that another server owns: a backup, or one that has just arrived
};

// Immutable; replaced as a whole, so that a call works with one map from its beginning to its end.
struct OwnerMap {
  struct Place {
    std::shared_ptr<Partition> partition;  // null for kNone
    PartitionRole role = PartitionRole::kNone;
    uint64_t owner = 0;   // the process that owns it by the map
    uint64_t backup = 0;  // the process that the map names as its backup; 0: none
    bool mine = false;    // owner is this server
    // kFrozen: the task that froze it.
    uint64_t move_task = 0;
    // kStandby: the process that sent it; complete: all of it has come, so that it can serve.
    uint64_t from = 0;
    bool complete = false;
    // kServing, kFrozen: keeps the backup in step; the task that made it. Null: none.
    std::shared_ptr<ReplicaStream> stream;
    uint64_t backup_task = 0;
    // kStandby: a map has named this server as backup; else: a map has named the stream's target.
    bool backup_listed = false;
  };

  // The partition if it answers lanes, else null.
  Partition* Serving(uint32_t partition) const {
    const Place& place = at[partition];
    return place.role == PartitionRole::kServing ? place.partition.get() : nullptr;
  }
  // The partition if this server is its owner and has it, else null.
  Partition* Owned(uint32_t partition) const {
    const Place& place = at[partition];
    return place.role == PartitionRole::kServing || place.role == PartitionRole::kFrozen ? place.partition.get()
                                                                                         : nullptr;
  }

  uint64_t version = 0;
  std::vector<Place> at;  // by partition
};

// What server `self` does under the view's map, given what it did before (null: it had nothing). Nothing is changed in
// the partitions themselves: the caller opens standbys that serve now and closes what has left. INVALID_ARGUMENT names
// what does not fit.
absl::StatusOr<std::shared_ptr<OwnerMap>> NextOwnerMap(const JobView& view, uint64_t self, uint32_t partitions,
                                                       const OwnerMap* before);

// Lets all partitions keep their dense weights in new shared tensors. REQUIRES: all are owned.
std::shared_ptr<SharedTensors> ShareTensors(const JobSchema& schema, const OwnerMap& map);

}  // namespace shoal

#endif  // SHOAL_SERVER_OWNER_MAP_H_
