// Which lanes of a job are alive and how far each is.
#ifndef SHOAL_SERVER_LIVE_LANES_H_
#define SHOAL_SERVER_LIVE_LANES_H_

#include <cstdint>

#include "absl/container/flat_hash_map.h"
#include "proto/scheduler.pb.h"

namespace shoal {

// The live set as a server knows it: the scheduler's, plus lanes that spoke to us before the scheduler's news of them
// arrived. Clocks never go back. Not thread-safe.
class LiveLanes {
 public:
  // Takes over a newer live set; false (and nothing changes) when it is not newer.
  bool Update(const JobView& view);

  // True for a lane that the scheduler removed.
  bool Removed(uint64_t lane) const { return lane < next_lane_ && clocks_.find(lane) == clocks_.end(); }
  // A lane that is not known yet joins with the slowest clock. REQUIRES: !Removed(lane).
  void Join(uint64_t lane);
  // Raises how many batches a lane has finished; an unknown one joins with that.
  void Raise(uint64_t lane, uint64_t finished);
  // The smallest clock of all live lanes; 0 when there are none.
  uint64_t Slowest() const;

 private:
  absl::flat_hash_map<uint64_t, uint64_t> clocks_;  // by lane: batches finished
  uint64_t next_lane_ = 0;
  uint64_t live_version_ = 0;
  mutable bool slowest_known_ = false;
  mutable uint64_t slowest_ = 0;
};

}  // namespace shoal

#endif  // SHOAL_SERVER_LIVE_LANES_H_
