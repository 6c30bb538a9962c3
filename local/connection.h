// The way from the command line to a scheduler.
#ifndef SHOAL_LOCAL_CONNECTION_H_
#define SHOAL_LOCAL_CONNECTION_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/job.pb.h"
#include "proto/scheduler_client.h"

namespace shoal {

// Connects and asks for the cluster's status, again and again until it answers or `timeout` is over. UNAVAILABLE then,
// with the address and what to check.
absl::StatusOr<std::unique_ptr<SchedulerClient>> ConnectScheduler(const std::string& address, absl::Duration timeout);

// A job by its number or, the newest of several, by its name. NOT_FOUND lists what there is.
absl::StatusOr<uint64_t> FindJob(SchedulerClient* scheduler, const std::string& job, absl::Duration timeout);

// Submits a job once, however often the call must be repeated; its number. restore_from: as in SubmitRequest.
absl::StatusOr<uint64_t> SubmitJob(SchedulerClient* scheduler, const Job& job, const std::string& restore_from,
                                   absl::Duration timeout);

}  // namespace shoal

#endif  // SHOAL_LOCAL_CONNECTION_H_
