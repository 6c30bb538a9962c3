#include "worker/train/retry.h"

#include <algorithm>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"

namespace shoal {
namespace {

constexpr absl::Duration kFirstBackoff = absl::Milliseconds(5);
constexpr absl::Duration kLongestBackoff = absl::Milliseconds(500);

bool WorthRepeating(const absl::Status& status) {
  return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) || absl::IsResourceExhausted(status);
}

}  // namespace

absl::Status RepeatCalls(CallSet* calls, size_t slots, const RetryPolicy& policy,
                         const std::function<void(size_t)>& issue, bool parked_is_fine, uint64_t* retries) {
  const absl::Duration start = policy.clock->Now();
  absl::Duration backoff = kFirstBackoff;
  for (;;) {
    calls->WaitAll();
    std::vector<size_t> again;
    absl::Status lost;
    for (size_t slot = 0; slot < slots; ++slot) {
      const absl::Status status = calls->status(slot);
      if (status.ok()) continue;
      if (!WorthRepeating(status)) return status;
      again.push_back(slot);
      if (!(parked_is_fine && absl::IsDeadlineExceeded(status))) lost = status;
    }
    if (again.empty()) return absl::OkStatus();
    if (!policy.keep_going()) return absl::CancelledError("the lane was told to stop");
    if (!lost.ok()) {
      ++*retries;
      if (policy.clock->Now() - start > policy.retry_limit) {
        return absl::Status(lost.code(), absl::StrCat(lost.message(), " (gave up after ",
                                                      absl::FormatDuration(policy.retry_limit), ")"));
      }
      std::this_thread::sleep_for(absl::ToChronoMilliseconds(backoff));
      backoff = std::min(backoff * 2, kLongestBackoff);
    }
    for (size_t slot : again) issue(slot);
  }
}

}  // namespace shoal
