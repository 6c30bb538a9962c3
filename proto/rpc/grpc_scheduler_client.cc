#include "proto/rpc/grpc_scheduler_client.h"

#include <grpcpp/client_context.h>

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "proto/rpc/address.h"
#include "proto/rpc/rpc_options.h"
#include "proto/rpc/status_convert.h"
#include "proto/scheduler_service.grpc.pb.h"

namespace shoal {
namespace {

// How long a call that found no connection lets the next attempt go on.
constexpr absl::Duration kConnectPatience = absl::Milliseconds(150);

}  // namespace

// Thread-safe.
class GrpcSchedulerClient::Impl {
 public:
  explicit Impl(const std::string& address)
      : address_(address), channel_(MakeChannel(address, 0)), stub_(SchedulerService::NewStub(channel_)) {}

  template <typename Request, typename Reply>
  absl::StatusOr<Reply> Call(grpc::Status (SchedulerService::Stub::*method)(grpc::ClientContext*, const Request&,
                                                                            Reply*),
                             const Request& request, absl::Duration timeout) {
    grpc::ClientContext context;
    context.set_deadline(DeadlineAfter(timeout));
    {
      MutexLock lock(&mu_);
      if (aborted_) return absl::CancelledError("scheduler client: aborted");
      calls_.insert(&context);
    }
    Reply reply;
    const absl::Status status = FromServer((stub_.get()->*method)(&context, request, &reply));
    {
      MutexLock lock(&mu_);
      calls_.erase(&context);
      if (aborted_ && !status.ok()) return absl::CancelledError("scheduler client: aborted");
    }
    if (status.ok()) return reply;
    if (absl::IsUnimplemented(status)) {
      return absl::UnimplementedError(absl::StrCat(address_, " is not a scheduler, or one of another version (",
                                                   status.message(), "); is the address right?"));
    }
    // Blocking calls are what drives gRPC's sockets in a process without a server: a call that fails at once gives the
    // next attempt to connect no time, and a scheduler that comes up later is not noticed for seconds.
    if (absl::IsUnavailable(status)) {
      channel_->WaitForConnected(DeadlineAfter(std::min(timeout, kConnectPatience)));
    }
    if (!absl::IsUnavailable(status) && !absl::IsDeadlineExceeded(status)) return status;
    return absl::Status(status.code(), absl::StrCat("scheduler ", address_, ": ", status.message()));
  }

  void Abort() {
    MutexLock lock(&mu_);
    aborted_ = true;
    // TryCancel only posts the cancellation; the calls end on their own threads.
    for (grpc::ClientContext* context : calls_) context->TryCancel();
  }

 private:
  const std::string address_;
  const std::shared_ptr<grpc::Channel> channel_;
  const std::unique_ptr<SchedulerService::Stub> stub_;
  Mutex mu_;
  bool aborted_ ABSL_GUARDED_BY(mu_) = false;
  std::set<grpc::ClientContext*> calls_ ABSL_GUARDED_BY(mu_);
};

absl::StatusOr<std::unique_ptr<GrpcSchedulerClient>> GrpcSchedulerClient::Create(const std::string& address) {
  SHOAL_RETURN_IF_ERROR(ParseAddress(address).status());
  return std::unique_ptr<GrpcSchedulerClient>(new GrpcSchedulerClient(std::make_unique<Impl>(address)));
}

GrpcSchedulerClient::GrpcSchedulerClient(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
GrpcSchedulerClient::~GrpcSchedulerClient() = default;

void GrpcSchedulerClient::Abort() { impl_->Abort(); }

using Stub = SchedulerService::Stub;

absl::StatusOr<RegisterReply> GrpcSchedulerClient::Register(const RegisterRequest& request, absl::Duration timeout) {
  return impl_->Call(&Stub::Register, request, timeout);
}
absl::StatusOr<HeartbeatReply> GrpcSchedulerClient::Heartbeat(const HeartbeatRequest& request, absl::Duration timeout) {
  return impl_->Call(&Stub::Heartbeat, request, timeout);
}
absl::StatusOr<ClusterView> GrpcSchedulerClient::Watch(const WatchRequest& request, absl::Duration timeout) {
  return impl_->Call(&Stub::Watch, request, timeout);
}
absl::StatusOr<NextWorkReply> GrpcSchedulerClient::NextWork(const NextWorkRequest& request, absl::Duration timeout) {
  return impl_->Call(&Stub::NextWork, request, timeout);
}
absl::StatusOr<Empty> GrpcSchedulerClient::TaskDone(const TaskResult& request, absl::Duration timeout) {
  return impl_->Call(&Stub::TaskDone, request, timeout);
}
absl::StatusOr<Empty> GrpcSchedulerClient::Leave(const LeaveRequest& request, absl::Duration timeout) {
  return impl_->Call(&Stub::Leave, request, timeout);
}
absl::StatusOr<Empty> GrpcSchedulerClient::Drain(const DrainRequest& request, absl::Duration timeout) {
  return impl_->Call(&Stub::Drain, request, timeout);
}
absl::StatusOr<JobConfig> GrpcSchedulerClient::GetJobConfig(const JobRef& request, absl::Duration timeout) {
  return impl_->Call(&Stub::GetJobConfig, request, timeout);
}
absl::StatusOr<SubmitReply> GrpcSchedulerClient::Submit(const SubmitRequest& request, absl::Duration timeout) {
  return impl_->Call(&Stub::Submit, request, timeout);
}
absl::StatusOr<JobList> GrpcSchedulerClient::ListJobs(const Empty& request, absl::Duration timeout) {
  return impl_->Call(&Stub::ListJobs, request, timeout);
}
absl::StatusOr<JobStatus> GrpcSchedulerClient::GetJob(const GetJobRequest& request, absl::Duration timeout) {
  return impl_->Call(&Stub::GetJob, request, timeout);
}
absl::StatusOr<Empty> GrpcSchedulerClient::Cancel(const JobRef& request, absl::Duration timeout) {
  return impl_->Call(&Stub::Cancel, request, timeout);
}
absl::StatusOr<JobLogs> GrpcSchedulerClient::Logs(const JobRef& request, absl::Duration timeout) {
  return impl_->Call(&Stub::Logs, request, timeout);
}
absl::StatusOr<ClusterStatus> GrpcSchedulerClient::Status(const Empty& request, absl::Duration timeout) {
  return impl_->Call(&Stub::Status, request, timeout);
}

}  // namespace shoal
