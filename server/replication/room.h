// Memory of a backup that is kept for what its primaries apply.
#ifndef SHOAL_SERVER_REPLICATION_ROOM_H_
#define SHOAL_SERVER_REPLICATION_ROOM_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>

#include "absl/functional/function_ref.h"
#include "base/mutex.h"
#include "server/store/partition.h"
#include "server/store/store_stats.h"

namespace shoal {

// The backup's side: which source may let its copies grow by how much. What is granted counts as reserved, so that
// neither pushes of the server's own nor other sources take it; the limit therefore holds although changes that were
// granted are never refused. Grants are not taken back while the source has copies here, because it may already have
// used them. Thread-safe.
class RoomGrants {
 public:
  // `stats` outlives it. limit_bytes: 0: none, then nothing is counted.
  RoomGrants(StoreStats* stats, uint64_t limit_bytes) : stats_(*stats), limit_(static_cast<int64_t>(limit_bytes)) {}

  bool limited() const { return limit_ != 0; }
  // A change of the source's copy has been applied: what it needs more has come out of the grant.
  void Applied(uint64_t source, uint32_t partition, const Partition::Space& before, const Partition::Space& after);
  // Tops the source's grant up, to `wanted` if there is as much; returns what it has.
  uint64_t Grant(uint64_t source, uint64_t wanted);
  // Copies that are here, by partition: their sources. Forgets all others. They are asked for under the lock, which
  // comes before that of the map.
  void Keep(absl::FunctionRef<std::map<uint32_t, uint64_t>()> copies_here);

 private:
  StoreStats& stats_;
  const int64_t limit_;
  Mutex mu_;
  std::map<uint64_t, uint64_t> grants_ ABSL_GUARDED_BY(mu_);  // by source
  // By partition: by how much a copy can grow without anything new in it; reserved, too.
  std::map<uint32_t, uint64_t> slack_ ABSL_GUARDED_BY(mu_);
};

// The primary's side: what a backup has granted, less what was applied here since. Guarded by its owner.
class RoomBook {
 public:
  // What a push takes, until all copies that it touches have it.
  struct Charge {
    uint64_t bytes = 0;
    size_t missing = 0;  // copies
  };

  // An answer of the backup. The copies' versions of this answer have been told before.
  void Told(bool limited, uint64_t room) {
    known_ = true;
    limited_ = limited;
    room_ = room;
  }
  void Forget() { known_ = limited_ = false; }
  bool known() const { return known_; }
  bool limited() const { return limited_; }
  uint64_t taken() const { return taken_; }
  uint64_t left() const { return room_ > taken_ ? room_ - taken_ : 0; }
  // False, and nothing is taken: there is not as much.
  bool Take(uint64_t bytes) {
    if (limited_ && bytes > left()) return false;
    taken_ += bytes;
    return true;
  }
  void Return(uint64_t bytes) { taken_ -= bytes; }

 private:
  bool known_ = false, limited_ = false;
  uint64_t room_ = 0, taken_ = 0;
};

}  // namespace shoal

#endif  // SHOAL_SERVER_REPLICATION_ROOM_H_
