// The scheduler over gRPC.
#ifndef SHOAL_PROTO_RPC_GRPC_SCHEDULER_CLIENT_H_
#define SHOAL_PROTO_RPC_GRPC_SCHEDULER_CLIENT_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "proto/scheduler_client.h"

namespace shoal {

// Thread-safe. REQUIRES: no call in flight when destroyed; Abort ends them.
class GrpcSchedulerClient : public SchedulerClient {
 public:
  // Does not connect yet: the first call does. INVALID_ARGUMENT when `address` is not host:port.
  static absl::StatusOr<std::unique_ptr<GrpcSchedulerClient>> Create(const std::string& address);
  ~GrpcSchedulerClient() override;

  absl::StatusOr<RegisterReply> Register(const RegisterRequest& request, absl::Duration timeout) override;
  absl::StatusOr<HeartbeatReply> Heartbeat(const HeartbeatRequest& request, absl::Duration timeout) override;
  absl::StatusOr<ClusterView> Watch(const WatchRequest& request, absl::Duration timeout) override;
  absl::StatusOr<NextWorkReply> NextWork(const NextWorkRequest& request, absl::Duration timeout) override;
  absl::StatusOr<Empty> TaskDone(const TaskResult& request, absl::Duration timeout) override;
  absl::StatusOr<Empty> Leave(const LeaveRequest& request, absl::Duration timeout) override;
  absl::StatusOr<Empty> Drain(const DrainRequest& request, absl::Duration timeout) override;
  absl::StatusOr<JobConfig> GetJobConfig(const JobRef& request, absl::Duration timeout) override;
  absl::StatusOr<SubmitReply> Submit(const SubmitRequest& request, absl::Duration timeout) override;
  absl::StatusOr<JobList> ListJobs(const Empty& request, absl::Duration timeout) override;
  absl::StatusOr<JobStatus> GetJob(const GetJobRequest& request, absl::Duration timeout) override;
  absl::StatusOr<Empty> Cancel(const JobRef& request, absl::Duration timeout) override;
  absl::StatusOr<JobLogs> Logs(const JobRef& request, absl::Duration timeout) override;
  absl::StatusOr<ClusterStatus> Status(const Empty& request, absl::Duration timeout) override;

  // Calls in flight and all later ones return CANCELLED, so that a process that exits waits for nobody.
  void Abort();

 private:
  class Impl;
  explicit GrpcSchedulerClient(std::unique_ptr<Impl> impl);
  const std::unique_ptr<Impl> impl_;
};

}  // namespace shoal

#endif  // SHOAL_PROTO_RPC_GRPC_SCHEDULER_CLIENT_H_
