// Which batches had rows refused by the guard, so that they can be looked at again.
#ifndef SHOAL_SERVER_REFUSED_LOG_H_
#define SHOAL_SERVER_REFUSED_LOG_H_

#include <cstdint>
#include <deque>
#include <vector>

#include "absl/types/span.h"
#include "base/mutex.h"
#include "proto/scheduler.pb.h"
#include "server/rounds.h"
#include "server/store/job_schema.h"
#include "server/store/store_stats.h"

namespace shoal {

// The newest refused batches of one job on one server. Thread-safe.
class RefusedLog {
 public:
  static constexpr size_t kKept = 32;

  // Numbers the batch and keeps it; the oldest goes when there are kKept.
  void Add(RefusedBatch batch);
  // Fills refused and refused_batches.
  void Fill(ServerJobReport* report) const;

 private:
  mutable Mutex mu_;
  std::deque<RefusedBatch> newest_ ABSL_GUARDED_BY(mu_);
  uint64_t count_ ABSL_GUARDED_BY(mu_) = 0;
};

// What the guard refused according to `tally`; false: nothing. Fills `rows` of *batch.
bool TakeRefused(const PushTally& tally, RefusedBatch* batch);

// bsp: the next round, of `examples`, has been applied to `partitions`. When the guard refused something, the lanes
// whose own gradient it would refuse are to blame; where there is none (the sum grew too large), all of them, with what
// `tally` says. REQUIRES: rounds.Ready().
std::vector<RefusedBatch> BlameLanes(const JobSchema& schema, const Rounds& rounds,
                                     absl::Span<const uint32_t> partitions, uint64_t examples, const PushTally& tally);

}  // namespace shoal

#endif  // SHOAL_SERVER_REFUSED_LOG_H_
