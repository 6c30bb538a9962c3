// The scheduler, as servers, workers and the CLI see it. Variants: GrpcSchedulerClient (proto/rpc),
// LocalSchedulerClient (local/).
#ifndef SHOAL_PROTO_SCHEDULER_CLIENT_H_
#define SHOAL_PROTO_SCHEDULER_CLIENT_H_

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/scheduler.pb.h"

namespace shoal {

// Blocking calls, each with a deadline. Thread-safe. UNAVAILABLE and DEADLINE_EXCEEDED are worth a retry. From a call
// with an identity, NOT_FOUND means that the scheduler does not know the process (any more) or has declared it dead: it
// registers again; FAILED_PRECONDITION means that it is fenced or has left: it exits and does not come back.
class SchedulerClient {
 public:
  virtual ~SchedulerClient() = default;
  virtual absl::StatusOr<RegisterReply> Register(const RegisterRequest& request, absl::Duration timeout) = 0;
  virtual absl::StatusOr<HeartbeatReply> Heartbeat(const HeartbeatRequest& request, absl::Duration timeout) = 0;
  virtual absl::StatusOr<ClusterView> Watch(const WatchRequest& request, absl::Duration timeout) = 0;
  virtual absl::StatusOr<NextWorkReply> NextWork(const NextWorkRequest& request, absl::Duration timeout) = 0;
  virtual absl::StatusOr<Empty> TaskDone(const TaskResult& request, absl::Duration timeout) = 0;
  virtual absl::StatusOr<Empty> Leave(const LeaveRequest& request, absl::Duration timeout) = 0;
  virtual absl::StatusOr<Empty> Drain(const DrainRequest& request, absl::Duration timeout) = 0;
  virtual absl::StatusOr<JobConfig> GetJobConfig(const JobRef& request, absl::Duration timeout) = 0;
  virtual absl::StatusOr<SubmitReply> Submit(const SubmitRequest& request, absl::Duration timeout) = 0;
  virtual absl::StatusOr<JobList> ListJobs(const Empty& request, absl::Duration timeout) = 0;
  virtual absl::StatusOr<JobStatus> GetJob(const GetJobRequest& request, absl::Duration timeout) = 0;
  virtual absl::StatusOr<Empty> Cancel(const JobRef& request, absl::Duration timeout) = 0;
  virtual absl::StatusOr<JobLogs> Logs(const JobRef& request, absl::Duration timeout) = 0;
  virtual absl::StatusOr<ClusterStatus> Status(const Empty& request, absl::Duration timeout) = 0;
};

}  // namespace shoal

#endif  // SHOAL_PROTO_SCHEDULER_CLIENT_H_
