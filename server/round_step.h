// bsp: what a complete round does to the partitions.
#ifndef SHOAL_SERVER_ROUND_STEP_H_
#define SHOAL_SERVER_ROUND_STEP_H_

#include <cstdint>
#include <deque>

#include "absl/types/span.h"
#include "server/owner_map.h"
#include "server/rounds.h"
#include "server/store/job_schema.h"
#include "server/store/store_stats.h"

namespace shoal {

// Applies rounds, large ones on several threads: all lanes wait for it, so that their cores have nothing else to do. No
// bit depends on the number of threads, as partitions know nothing of one another; with a soft limit of memory, which
// they reach together, it is one. Not thread-safe.
class RoundStep {
 public:
  // At most `threads`, the caller's among them, each with at least `floats_per_thread` gradients to add up: fewer cost
  // less than a thread does. `schema` and `stats` outlive it.
  RoundStep(const JobSchema& schema, StoreStats* stats, uint32_t threads, uint64_t floats_per_thread)
      : schema_(schema), stats_(stats), threads_(threads), floats_per_thread_(floats_per_thread) {}

  // Applies the round that is next to `partitions`, which the map's server owns. Returns its examples; *tally: what the
  // partitions counted. REQUIRES: rounds.Ready().
  uint64_t Apply(const Rounds& rounds, const OwnerMap& map, absl::Span<const uint32_t> partitions, PushTally* tally);

 private:
  const JobSchema& schema_;
  StoreStats* const stats_;
  const uint32_t threads_;
  const uint64_t floats_per_thread_;
  std::deque<RoundFold> folds_;  // one for each thread that was ever used
};

}  // namespace shoal

#endif  // SHOAL_SERVER_ROUND_STEP_H_
