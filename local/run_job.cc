#include "local/run_job.h"

#include <unistd.h>

#include <thread>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/random.h"
#include "base/status_macros.h"

namespace shoal {
namespace {

constexpr absl::Duration kCallTimeout = absl::Seconds(5);
constexpr uint32_t kStatusWaitMs = 500;
constexpr auto kRetryNap = std::chrono::milliseconds(200);

bool CannotReach(const absl::Status& status) { return absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status); }

bool Ended(JobState state) { return state == SUCCEEDED || state == FAILED || state == CANCELLED; }

// Repeats `call` while the scheduler cannot be reached, at most for `limit`.
template <typename Call>
auto Reach(absl::Duration limit, Call call) -> decltype(call()) {
  const Clock& clock = Clock::Steady();
  const absl::Duration end = clock.Now() + limit;
  for (;;) {
    auto result = call();
    if (result.ok() || !CannotReach(result.status()) || clock.Now() >= end) return result;
    std::this_thread::sleep_for(kRetryNap);
  }
}

}  // namespace

absl::StatusOr<JobStatus> RunJob(SchedulerClient* scheduler, const Job& job, const RunJobOptions& options) {
  SubmitRequest request;
  *request.mutable_job() = job;
  request.set_restore_from(options.restore_from);
  // Two submissions of one file are two jobs; a repeat of one submission is not.
  const uint64_t now = static_cast<uint64_t>(absl::ToInt64Nanoseconds(Clock::Steady().Now()));
  const uint64_t pid = static_cast<uint64_t>(getpid());
  request.set_request_id(absl::StrCat(job.name(), "-", absl::Hex(HashCoordinates({now, pid}))));
  SHOAL_ASSIGN_OR_RETURN(SubmitReply reply,
                         Reach(options.unreachable_limit, [&] { return scheduler->Submit(request, kCallTimeout); }));
  return WaitForJob(scheduler, reply.job(), options);
}

absl::StatusOr<JobStatus> WaitForJob(SchedulerClient* scheduler, uint64_t job, const RunJobOptions& options) {
  GetJobRequest request;
  request.set_job(job);
  request.set_wait_ms(kStatusWaitMs);
  bool cancelled = false;
  for (;;) {
    if (options.stop != nullptr && *options.stop && !cancelled) {
      JobRef ref;
      ref.set_job(job);
      SHOAL_RETURN_IF_ERROR(
          Reach(options.unreachable_limit, [&] { return scheduler->Cancel(ref, kCallTimeout); }).status());
      cancelled = true;
    }
    SHOAL_ASSIGN_OR_RETURN(JobStatus status,
                           Reach(options.unreachable_limit, [&] { return scheduler->GetJob(request, kCallTimeout); }));
    request.set_known_version(status.version());
    if (options.on_status) options.on_status(status);
    if (Ended(status.state())) return status;
  }
}

}  // namespace shoal
