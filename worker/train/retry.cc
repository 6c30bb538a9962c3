#include "worker/train/retry.h"

#include <algorithm>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace shoal {
namespace {

constexpr absl::Duration kFirstBackoff = absl::Milliseconds(5);
constexpr absl::Duration kLongestBackoff = absl::Milliseconds(500);

// The server has not made the job, or still holds an older run of it.
bool IsJobMissing(const absl::Status& status) { return absl::IsNotFound(status); }

bool WorthRepeating(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) || absl::IsResourceExhausted(status) ||
         IsJobMissing(status);
}

// Why calls without an answer are not repeated; OK when they are. `tried`: for how long, `refused`: how long of it, or
// of the calls before, for want of memory.
absl::Status MayRepeat(const RetryPolicy& policy, CallKind kind, const absl::Status& lost, absl::Duration tried,
                       absl::Duration refused) {
  if (!policy.keep_going()) return absl::CancelledError("the lane was told to stop");
  if (policy.stopping && policy.stopping() && (kind != CallKind::kOther || tried > kLastPatience)) {
    return absl::CancelledError("the worker is stopping");
  }
  const bool full = absl::IsResourceExhausted(lost);
  const absl::Duration limit = full ? policy.retry_limit : policy.reach_limit;
  if (!lost.ok() && (full ? refused : tried) > limit) {
    return absl::Status(lost.code(),
                        absl::StrCat(lost.message(), " (gave up after ", absl::FormatDuration(limit), ")"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Duration MemoryWait::Refused(const RouteMap* routes, absl::Duration now) {
  std::map<uint64_t, std::vector<uint32_t>> owned;
  if (routes != nullptr) {
    for (const RouteMap::Server& server : routes->servers) owned[server.process] = server.partitions;
  }
  if (!since_.has_value() || owned != owned_) since_ = now;
  owned_ = std::move(owned);
  return now - *since_;
}

absl::StatusOr<CallsEnd> RepeatCalls(CallSet* calls, size_t slots, const RetryPolicy& policy, uint64_t map_version,
                                     CallKind kind, const std::function<void(size_t)>& issue, uint64_t* retries,
                                     const RouteMap* routes) {
  const absl::Duration start = policy.clock->Now();
  MemoryWait own;
  MemoryWait& memory = policy.memory != nullptr ? *policy.memory : own;
  absl::Duration backoff = kFirstBackoff;
  for (;;) {
    calls->WaitAll();
    std::vector<size_t> again;
    absl::Status lost;
    bool missing = false, still_parked = false;
    for (size_t slot = 0; slot < slots; ++slot) {
      const absl::Status status = calls->status(slot);
      if (policy.reach != nullptr && routes != nullptr) policy.reach->Heard(routes->servers[slot].process, status);
      if (status.ok()) continue;
      const bool parked = kind != CallKind::kOther && absl::IsAborted(status);
      if (parked && kind == CallKind::kPolledPull) {
        still_parked = true;
        continue;
      }
      if (!parked && !WorthRepeating(status)) return status;
      again.push_back(slot);
      missing |= IsJobMissing(status);
      // Want of memory is what matters of several reasons.
      if (!parked && !absl::IsResourceExhausted(lost)) lost = status;
    }
    if (again.empty() && !still_parked) return CallsEnd::kAnswered;
    const absl::Duration now = policy.clock->Now();
    const absl::Duration refused = absl::IsResourceExhausted(lost) ? memory.Refused(routes, now) : absl::ZeroDuration();
    const absl::Status may = MayRepeat(policy, kind, lost, now - start, refused);
    if (absl::IsCancelled(may) || absl::IsResourceExhausted(may)) return may;
    if (missing || (policy.superseded && policy.superseded(map_version))) return CallsEnd::kSuperseded;
    if (!may.ok()) return may;
    if (again.empty()) return CallsEnd::kParked;
    if (!lost.ok()) {
      ++*retries;
      std::this_thread::sleep_for(absl::ToChronoMilliseconds(backoff));
      backoff = std::min(backoff * 2, kLongestBackoff);
    }
    for (size_t slot : again) issue(slot);
  }
}

}  // namespace shoal
