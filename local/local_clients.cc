#include "local/local_clients.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/mutex.h"

namespace shoal {
namespace {

// Where an answer is left for a caller that may have stopped waiting.
template <typename Reply>
struct Answer {
  Mutex mu;
  CondVar arrived;
  bool has_value ABSL_GUARDED_BY(mu) = false;
  absl::StatusOr<Reply> value ABSL_GUARDED_BY(mu) = absl::DeadlineExceededError("no answer");
};

class LocalSchedulerClient : public SchedulerClient {
 public:
  explicit LocalSchedulerClient(Scheduler* scheduler) : scheduler_(*scheduler) {}

  absl::StatusOr<RegisterReply> Register(const RegisterRequest& request, absl::Duration timeout) override {
    return Call(&Scheduler::Register, request, timeout);
  }
  absl::StatusOr<HeartbeatReply> Heartbeat(const HeartbeatRequest& request, absl::Duration timeout) override {
    return Call(&Scheduler::Heartbeat, request, timeout);
  }
  absl::StatusOr<ClusterView> Watch(const WatchRequest& request, absl::Duration timeout) override {
    return Call(&Scheduler::Watch, request, timeout);
  }
  absl::StatusOr<NextWorkReply> NextWork(const NextWorkRequest& request, absl::Duration timeout) override {
    return Call(&Scheduler::NextWork, request, timeout);
  }
  absl::StatusOr<Empty> TaskDone(const TaskResult& request, absl::Duration timeout) override {
    return Call(&Scheduler::TaskDone, request, timeout);
  }
  absl::StatusOr<Empty> Leave(const LeaveRequest& request, absl::Duration timeout) override {
    return Call(&Scheduler::Leave, request, timeout);
  }
  absl::StatusOr<Empty> Drain(const DrainRequest& request, absl::Duration timeout) override {
    return Call(&Scheduler::Drain, request, timeout);
  }
  absl::StatusOr<JobConfig> GetJobConfig(const JobRef& request, absl::Duration timeout) override {
    return Call(&Scheduler::GetJobConfig, request, timeout);
  }
  absl::StatusOr<SubmitReply> Submit(const SubmitRequest& request, absl::Duration timeout) override {
    return Call(&Scheduler::Submit, request, timeout);
  }
  absl::StatusOr<JobList> ListJobs(const Empty& request, absl::Duration timeout) override {
    return Call(&Scheduler::ListJobs, request, timeout);
  }
  absl::StatusOr<JobStatus> GetJob(const GetJobRequest& request, absl::Duration timeout) override {
    return Call(&Scheduler::GetJob, request, timeout);
  }
  absl::StatusOr<Empty> Cancel(const JobRef& request, absl::Duration timeout) override {
    return Call(&Scheduler::Cancel, request, timeout);
  }
  absl::StatusOr<JobLogs> Logs(const JobRef& request, absl::Duration timeout) override {
    return Call(&Scheduler::Logs, request, timeout);
  }
  absl::StatusOr<ClusterStatus> Status(const Empty& request, absl::Duration timeout) override {
    return Call(&Scheduler::Status, request, timeout);
  }

 private:
  template <typename Request, typename Reply>
  absl::StatusOr<Reply> Call(void (Scheduler::*method)(const Request&, Scheduler::Done<Reply>), const Request& request,
                             absl::Duration timeout) {
    auto answer = std::make_shared<Answer<Reply>>();
    (scheduler_.*method)(request, [answer](absl::StatusOr<Reply> reply) {
      MutexLock lock(&answer->mu);
      answer->value = std::move(reply);
      answer->has_value = true;
      answer->arrived.SignalAll();
    });
    const absl::Duration end = Clock::Steady().Now() + timeout;
    MutexLock lock(&answer->mu);
    while (!answer->has_value) {
      const absl::Duration left = end - Clock::Steady().Now();
      if (left <= absl::ZeroDuration()) break;
      answer->arrived.WaitFor(&answer->mu, left);
    }
    return std::move(answer->value);
  }

  Scheduler& scheduler_;
};

class LocalParameterClient : public ParameterClient {
 public:
  explicit LocalParameterClient(std::weak_ptr<ParameterServer> server) : server_(std::move(server)) {}

  void OpenSplit(const OpenSplitRequest* request, absl::Duration timeout, OpenSplitReply* reply, Done done) override {
    if (auto server = Lock(done)) server->OpenSplit(request, reply, std::move(done));
  }
  void Pull(const PullRequest* request, absl::Duration timeout, PullReply* reply, Done done) override {
    if (auto server = Lock(done)) server->Pull(request, timeout, reply, std::move(done));
  }
  void Push(const PushRequest* request, absl::Duration timeout, PushReply* reply, Done done) override {
    if (auto server = Lock(done)) server->Push(request, reply, std::move(done));
  }
  void Mark(const MarkRequest* request, absl::Duration timeout, MarkReply* reply, Done done) override {
    if (auto server = Lock(done)) server->Mark(request, reply, std::move(done));
  }
  bool one_memory() const override { return true; }

 private:
  // Null, after answering, when the server is gone.
  std::shared_ptr<ParameterServer> Lock(const Done& done) {
    std::shared_ptr<ParameterServer> server = server_.lock();
    if (server == nullptr) done(absl::UnavailableError("the server is gone"));
    return server;
  }

  const std::weak_ptr<ParameterServer> server_;
};

class LocalReplicaClient : public ReplicaClient {
 public:
  explicit LocalReplicaClient(std::weak_ptr<ParameterServer> server) : server_(std::move(server)) {}

  void Replicate(const ReplicaRequest& request, absl::Duration timeout, Done done) override {
    const std::shared_ptr<ParameterServer> server = server_.lock();
    if (server == nullptr) return done(absl::UnavailableError("the server is gone"));
    done(server->Replicate(request));
  }

 private:
  const std::weak_ptr<ParameterServer> server_;
};

}  // namespace

std::unique_ptr<SchedulerClient> NewLocalSchedulerClient(Scheduler* scheduler) {
  return std::make_unique<LocalSchedulerClient>(scheduler);
}

std::unique_ptr<ReplicaClient> NewLocalReplicaClient(std::weak_ptr<ParameterServer> server) {
  return std::make_unique<LocalReplicaClient>(std::move(server));
}

std::unique_ptr<ParameterClient> NewLocalParameterClient(std::weak_ptr<ParameterServer> server) {
  return std::make_unique<LocalParameterClient>(std::move(server));
}

}  // namespace shoal
