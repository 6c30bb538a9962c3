#include "scheduler/rpc/scheduler_service.h"

#include <utility>

#include "base/clock.h"
#include "base/status_macros.h"
#include "proto/rpc/status_convert.h"
#include "proto/rpc/unary_call.h"
#include "proto/scheduler_service.grpc.pb.h"

namespace shoal {
namespace {

// Often enough that a parked call ends close to when it asked to, and seldom enough to cost nothing when idle.
constexpr absl::Duration kTick = absl::Milliseconds(20);
// A tick that is later than that says that the whole process stood still.
constexpr absl::Duration kLongestLateness = absl::Milliseconds(200);
// Time for gRPC to send the last answers.
constexpr absl::Duration kFlush = absl::Seconds(1);

// Keeps a copy of the request: gRPC's own is gone when the caller gives up, while the scheduler may still have the
// call.
template <typename Request>
struct SchedulerCall : UnaryCall {
  explicit SchedulerCall(const Request& r) : request(r) {}
  const Request request;
};

using Context = grpc::CallbackServerContext;
using Reactor = grpc::ServerUnaryReactor;

}  // namespace

// Every method does the same: hand the request over, send back what comes.
class SchedulerGrpcServer::Service : public SchedulerService::CallbackService {
 public:
  explicit Service(Scheduler* scheduler) : scheduler_(scheduler) {}

  CallRegistry* registry() { return &registry_; }

  Reactor* Register(Context*, const RegisterRequest* request, RegisterReply* reply) override {
    return Run(&Scheduler::Register, request, reply);
  }
  Reactor* Heartbeat(Context*, const HeartbeatRequest* request, HeartbeatReply* reply) override {
    return Run(&Scheduler::Heartbeat, request, reply);
  }
  Reactor* Watch(Context*, const WatchRequest* request, ClusterView* reply) override {
    return Run(&Scheduler::Watch, request, reply);
  }
  Reactor* NextWork(Context*, const NextWorkRequest* request, NextWorkReply* reply) override {
    return Run(&Scheduler::NextWork, request, reply);
  }
  Reactor* TaskDone(Context*, const TaskResult* request, Empty* reply) override {
    return Run(&Scheduler::TaskDone, request, reply);
  }
  Reactor* Leave(Context*, const LeaveRequest* request, Empty* reply) override {
    return Run(&Scheduler::Leave, request, reply);
  }
  Reactor* Drain(Context*, const DrainRequest* request, Empty* reply) override {
    return Run(&Scheduler::Drain, request, reply);
  }
  Reactor* GetJobConfig(Context*, const JobRef* request, JobConfig* reply) override {
    return Run(&Scheduler::GetJobConfig, request, reply);
  }
  Reactor* Submit(Context*, const SubmitRequest* request, SubmitReply* reply) override {
    return Run(&Scheduler::Submit, request, reply);
  }
  Reactor* ListJobs(Context*, const Empty* request, JobList* reply) override {
    return Run(&Scheduler::ListJobs, request, reply);
  }
  Reactor* GetJob(Context*, const GetJobRequest* request, JobStatus* reply) override {
    return Run(&Scheduler::GetJob, request, reply);
  }
  Reactor* Cancel(Context*, const JobRef* request, Empty* reply) override {
    return Run(&Scheduler::Cancel, request, reply);
  }
  Reactor* Logs(Context*, const JobRef* request, JobLogs* reply) override {
    return Run(&Scheduler::Logs, request, reply);
  }
  Reactor* Status(Context*, const Empty* request, ClusterStatus* reply) override {
    return Run(&Scheduler::Status, request, reply);
  }

 private:
  template <typename Request, typename Reply>
  Reactor* Run(void (Scheduler::*method)(const Request&, Scheduler::Done<Reply>), const Request* request,
               Reply* reply) {
    const auto call = std::make_shared<SchedulerCall<Request>>(*request);
    Reactor* const reactor = UnaryCall::Start(call, &registry_);
    (scheduler_->*method)(call->request, [call, reply](absl::StatusOr<Reply> result) {
      call->Finish([&] {
        if (result.ok()) *reply = *std::move(result);
        return ToGrpc(result.status());
      });
    });
    return reactor;
  }

  Scheduler* const scheduler_;
  CallRegistry registry_;
};

SchedulerGrpcServer::SchedulerGrpcServer(Scheduler* scheduler, std::unique_ptr<Service> service,
                                         std::unique_ptr<GrpcServer> grpc)
    : service_(std::move(service)),
      grpc_(std::move(grpc)),
      ticker_(kTick, [scheduler, last = Clock::Steady().Now()]() mutable {
        const absl::Duration now = Clock::Steady().Now();
        const absl::Duration pause = now - std::exchange(last, now) - kTick;
        if (pause > kLongestLateness) scheduler->Excuse(pause);
        scheduler->Tick();
      }) {}

SchedulerGrpcServer::~SchedulerGrpcServer() { Shutdown(absl::ZeroDuration()); }

absl::StatusOr<std::unique_ptr<SchedulerGrpcServer>> SchedulerGrpcServer::Start(Scheduler* scheduler,
                                                                                const GrpcServerOptions& options) {
  auto service = std::make_unique<Service>(scheduler);
  SHOAL_ASSIGN_OR_RETURN(std::unique_ptr<GrpcServer> grpc, GrpcServer::Start(options, {service.get()}));
  return std::unique_ptr<SchedulerGrpcServer>(new SchedulerGrpcServer(scheduler, std::move(service), std::move(grpc)));
}

const std::string& SchedulerGrpcServer::address() const { return grpc_->address(); }

void SchedulerGrpcServer::Shutdown(absl::Duration grace) {
  service_->registry()->EndAll(grace);
  grpc_->Shutdown(kFlush);
  ticker_.Stop();
}

}  // namespace shoal
