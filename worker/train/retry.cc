#include "worker/train/retry.h"

#include <algorithm>
#include <thread>
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

// Why calls without an answer are not repeated; OK when they are.
absl::Status MayRepeat(const RetryPolicy& policy, CallKind kind, const absl::Status& lost, absl::Duration tried) {
  if (!policy.keep_going()) return absl::CancelledError("the lane was told to stop");
  if (policy.stopping && policy.stopping() && (kind != CallKind::kOther || tried > kLastPatience)) {
    return absl::CancelledError("the worker is stopping");
  }
  const absl::Duration limit = absl::IsResourceExhausted(lost) ? policy.retry_limit : policy.reach_limit;
  if (!lost.ok() && tried > limit) {
    return absl::Status(lost.code(),
                        absl::StrCat(lost.message(), " (gave up after ", absl::FormatDuration(limit), ")"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<CallsEnd> RepeatCalls(CallSet* calls, size_t slots, const RetryPolicy& policy, uint64_t map_version,
                                     CallKind kind, const std::function<void(size_t)>& issue, uint64_t* retries,
                                     const RouteMap* routes) {
  const absl::Duration start = policy.clock->Now();
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
      if (!parked) lost = status;
    }
    if (again.empty() && !still_parked) return CallsEnd::kAnswered;
    const absl::Status may = MayRepeat(policy, kind, lost, policy.clock->Now() - start);
    if (absl::IsCancelled(may)) return may;
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
