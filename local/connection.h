// The way from the command line to a scheduler.
#ifndef SHOAL_LOCAL_CONNECTION_H_
#define SHOAL_LOCAL_CONNECTION_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/scheduler_client.h"

namespace shoal {

// HOST:PORT (IPv6 as [HOST]:PORT) in its parts. INVALID_ARGUMENT names what is wrong.
struct HostPort {
  std::string host;
  uint32_t port = 0;
};
absl::StatusOr<HostPort> ParseHostPort(const std::string& address);
// 127.0.0.0/8, ::1 and localhost: addresses that only this machine can reach.
bool IsLoopback(const std::string& host);
// 0.0.0.0 and ::, which nobody can connect to.
bool IsWildcard(const std::string& host);

// Connects and asks for the cluster's status, again and again until it answers or `timeout` is over. UNAVAILABLE then,
// with the address and what to check.
absl::StatusOr<std::unique_ptr<SchedulerClient>> ConnectScheduler(const std::string& address, absl::Duration timeout);

// A job by its number or, the newest of several, by its name. NOT_FOUND lists what there is.
absl::StatusOr<uint64_t> FindJob(SchedulerClient* scheduler, const std::string& job);

}  // namespace shoal

#endif  // SHOAL_LOCAL_CONNECTION_H_
