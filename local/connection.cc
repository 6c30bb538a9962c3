#include "local/connection.h"

#include <unistd.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/time/clock.h"
#include "base/clock.h"
#include "base/machine.h"
#include "base/status_macros.h"
#include "proto/rpc/grpc_scheduler_client.h"

namespace shoal {

absl::StatusOr<std::unique_ptr<SchedulerClient>> ConnectScheduler(const std::string& address, absl::Duration timeout) {
  SHOAL_ASSIGN_OR_RETURN(std::unique_ptr<GrpcSchedulerClient> client, GrpcSchedulerClient::Create(address));
  const absl::Duration end = Clock::Steady().Now() + timeout;
  for (;;) {
    const absl::Duration left = end - Clock::Steady().Now();
    const absl::StatusOr<ClusterStatus> status =
        client->Status(Empty(), std::clamp(left, absl::Milliseconds(100), absl::Seconds(2)));
    if (status.ok()) return std::unique_ptr<SchedulerClient>(std::move(client));
    if (!absl::IsUnavailable(status.status()) && !absl::IsDeadlineExceeded(status.status())) return status.status();
    if (Clock::Steady().Now() + absl::Milliseconds(200) >= end) {
      return absl::UnavailableError(absl::StrCat("no scheduler answers at ", address, " within ",
                                                 absl::FormatDuration(timeout), " (", status.status().message(),
                                                 "); is `shoal scheduler` running there, and is the address right? ",
                                                 "(--scheduler HOST:PORT or SHOAL_SCHEDULER)"));
    }
    // A refused connection fails at once; without the pause the loop would spin.
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
}

absl::StatusOr<uint64_t> FindJob(SchedulerClient* scheduler, const std::string& job, absl::Duration timeout) {
  SHOAL_ASSIGN_OR_RETURN(const JobList list, scheduler->ListJobs(Empty(), timeout));
  uint64_t number = 0, found = 0;
  const bool is_number = absl::SimpleAtoi(job, &number);
  std::vector<std::string> known;
  for (const JobStatus& candidate : list.jobs()) {
    if (is_number && candidate.job() == number) return number;
    if (candidate.name() == job) found = std::max<uint64_t>(found, candidate.job());
    known.push_back(absl::StrCat(candidate.job(), " ", candidate.name()));
  }
  if (found != 0) return found;
  // A long list would hide the message.
  constexpr size_t kShown = 10;
  if (known.size() > kShown) known.erase(known.begin(), known.end() - kShown);
  return absl::NotFoundError(
      absl::StrCat("no job \"", job, "\" (a number or a name); there ",
                   known.empty() ? "is none" : absl::StrCat("are: ", absl::StrJoin(known, ", "))));
}

absl::StatusOr<uint64_t> SubmitJob(SchedulerClient* scheduler, const Job& job, const std::string& restore_from,
                                   absl::Duration timeout) {
  SubmitRequest request;
  *request.mutable_job() = job;
  request.set_restore_from(restore_from);
  request.set_request_id(absl::StrCat(job.name(), "-", HostName(), "-", getpid(), "-", absl::GetCurrentTimeNanos()));
  const absl::Duration end = Clock::Steady().Now() + timeout;
  for (;;) {
    const absl::StatusOr<SubmitReply> reply = scheduler->Submit(request, timeout);
    if (reply.ok()) return reply->job();
    if (!absl::IsUnavailable(reply.status()) || Clock::Steady().Now() >= end) return reply.status();
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
}

}  // namespace shoal
