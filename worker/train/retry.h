// Repeating calls that got lost: the one place that decides what is repeated, how soon and for how long.
#ifndef SHOAL_WORKER_TRAIN_RETRY_H_
#define SHOAL_WORKER_TRAIN_RETRY_H_

#include <cstdint>
#include <functional>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "worker/train/call_set.h"

namespace shoal {

// How long calls may take and be repeated, and when to stop trying.
struct RetryPolicy {
  const Clock* clock = nullptr;
  absl::Duration request_timeout;
  absl::Duration retry_limit;        // for servers that cannot be reached or have no memory
  std::function<bool()> keep_going;  // false: the lane is to stop; calls end with CANCELLED
};

// Waits for the calls of slots 0..slots-1 and repeats, with back-off, those that failed in a way that is worth it.
// `issue` starts the call of one slot. parked_is_fine: DEADLINE_EXCEEDED only means that a pull is still parked; it is
// repeated at once and without limit. *retries counts the rounds of repeating.
absl::Status RepeatCalls(CallSet* calls, size_t slots, const RetryPolicy& policy,
                         const std::function<void(size_t)>& issue, bool parked_is_fine, uint64_t* retries);

}  // namespace shoal

#endif  // SHOAL_WORKER_TRAIN_RETRY_H_
