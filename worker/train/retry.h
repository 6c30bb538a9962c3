// Repeating calls that got lost: the one place that decides what is repeated, how soon and for how long.
#ifndef SHOAL_WORKER_TRAIN_RETRY_H_
#define SHOAL_WORKER_TRAIN_RETRY_H_

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "base/clock.h"
#include "worker/train/call_set.h"
#include "worker/train/reach_log.h"
#include "worker/train/route_map.h"

namespace shoal {

// Since when servers have had no memory for what a lane pushes, over all calls and maps: backups that come and go do
// not make them any larger. Other owners do, so then it begins anew. Not thread-safe.
class MemoryWait {
 public:
  // A refusal at `now`. Returns how long there have been nothing but refusals. `routes` may be null.
  absl::Duration Refused(const RouteMap* routes, absl::Duration now);
  void End() { since_.reset(); }

 private:
  absl::optional<absl::Duration> since_;
  std::map<uint64_t, std::vector<uint32_t>> owned_;  // by process, at the first refusal
};

// How long calls may take and be repeated, and when to stop trying.
struct RetryPolicy {
  const Clock* clock = nullptr;
  absl::Duration request_timeout;
  absl::Duration retry_limit;        // for servers that have no memory
  absl::Duration reach_limit;        // for servers that cannot be reached
  std::function<bool()> keep_going;  // false: the lane is to stop; calls end with CANCELLED
  // The lane ends after its batch: pulls are not repeated any more, other calls for kLastPatience only. May be empty.
  std::function<bool()> stopping;
  // Whether there is a newer map than the one that the calls were made with: repeating them is no use then. May be
  // empty.
  std::function<bool(uint64_t map_version)> superseded;
  // Told how each call ended. May be null.
  ReachLog* reach = nullptr;
  // Of the lane, which ends it when a push is done. Null: each round of calls has its own.
  MemoryWait* memory = nullptr;
};

inline constexpr absl::Duration kLastPatience = absl::Milliseconds(500);

enum class CallsEnd {
  kAnswered,
  // Some calls have no answer and are not repeated: a newer map says where to ask instead, or a server does not have
  // the job (yet).
  kSuperseded,
  // kPolledPull: all others are answered, those with ABORTED are still parked.
  kParked,
};

enum class CallKind {
  kPull,        // ABORTED only means that it is still parked: it is repeated at once and without limit
  kPolledPull,  // the same, but parked calls are left to the caller
  kOther,
};

// Waits for the calls of slots 0..slots-1 and repeats, with back-off, those that failed in a way that is worth it.
// `issue` starts the call of one slot. *retries counts the rounds of repeating. `routes` (may be null): slots are its
// servers.
absl::StatusOr<CallsEnd> RepeatCalls(CallSet* calls, size_t slots, const RetryPolicy& policy, uint64_t map_version,
                                     CallKind kind, const std::function<void(size_t)>& issue, uint64_t* retries,
                                     const RouteMap* routes);

// Waits that grow from 10 ms to half a second while nothing gets better. Not thread-safe.
class Backoff {
 public:
  absl::Duration Next() {
    const absl::Duration wait = wait_;
    wait_ = wait_ * 2 < kLongest ? wait_ * 2 : kLongest;
    return wait;
  }
  void Reset() { wait_ = kFirst; }

 private:
  static constexpr absl::Duration kFirst = absl::Milliseconds(10);
  static constexpr absl::Duration kLongest = absl::Milliseconds(500);
  absl::Duration wait_ = kFirst;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_TRAIN_RETRY_H_
