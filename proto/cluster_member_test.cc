// A member of a cluster against a scheduler that is played by the test.
#include "proto/cluster_member.h"

#include <catch2/catch.hpp>

#include "absl/synchronization/notification.h"
#include "base/clock.h"

namespace shoal {
namespace {

// Answers what the test has set; knows how often it was asked. Thread-safe.
class FakeScheduler : public SchedulerClient {
 public:
  absl::StatusOr<RegisterReply> Register(const RegisterRequest& request, absl::Duration) override {
    MutexLock lock(&mu);
    ++registered;
    registration = request;
    if (registered <= unreachable_for) return absl::UnavailableError("connection refused");
    RegisterReply reply;
    reply.set_process(static_cast<uint64_t>(registered));
    reply.set_name(request.name().empty() ? "made-up" : request.name());
    reply.set_heartbeat_ms(5);
    return reply;
  }
  absl::StatusOr<HeartbeatReply> Heartbeat(const HeartbeatRequest& request, absl::Duration) override {
    MutexLock lock(&mu);
    ++heartbeats;
    last_process = request.identity().process();
    if (!heartbeat_status.ok()) return std::exchange(heartbeat_status, absl::OkStatus());
    return HeartbeatReply();
  }
  absl::StatusOr<ClusterView> Watch(const WatchRequest& request, absl::Duration) override {
    MutexLock lock(&mu);
    if (view.version() == request.known_version()) changed.WaitFor(&mu, absl::Milliseconds(5));
    return view;
  }
  absl::StatusOr<Empty> TaskDone(const TaskResult& request, absl::Duration) override {
    MutexLock lock(&mu);
    if (task_replies_lost > 0) {
      --task_replies_lost;
      return absl::UnavailableError("lost");
    }
    results.push_back(request);
    return Empty();
  }
  absl::StatusOr<NextWorkReply> NextWork(const NextWorkRequest&, absl::Duration) override { return NextWorkReply(); }
  absl::StatusOr<Empty> Leave(const LeaveRequest&, absl::Duration) override { return Empty(); }
  absl::StatusOr<Empty> Drain(const DrainRequest&, absl::Duration) override { return Empty(); }
  absl::StatusOr<JobConfig> GetJobConfig(const JobRef&, absl::Duration) override { return JobConfig(); }
  absl::StatusOr<SubmitReply> Submit(const SubmitRequest&, absl::Duration) override { return SubmitReply(); }
  absl::StatusOr<JobList> ListJobs(const Empty&, absl::Duration) override { return JobList(); }
  absl::StatusOr<JobStatus> GetJob(const GetJobRequest&, absl::Duration) override { return JobStatus(); }
  absl::StatusOr<Empty> Cancel(const JobRef&, absl::Duration) override { return Empty(); }
  absl::StatusOr<JobLogs> Logs(const JobRef&, absl::Duration) override { return JobLogs(); }
  absl::StatusOr<ClusterStatus> Status(const Empty&, absl::Duration) override { return ClusterStatus(); }

  // Waits until `condition`, evaluated under the lock, holds; false after ten seconds.
  template <typename Condition>
  bool Await(Condition condition) {
    const absl::Duration end = Clock::Steady().Now() + absl::Seconds(10);
    MutexLock lock(&mu);
    while (!condition()) {
      if (Clock::Steady().Now() >= end) return false;
      changed.WaitFor(&mu, absl::Milliseconds(2));
    }
    return true;
  }

  Mutex mu;
  CondVar changed;
  int registered = 0, unreachable_for = 0, heartbeats = 0, task_replies_lost = 0;
  RegisterRequest registration;  // the last one
  uint64_t last_process = 0;
  absl::Status heartbeat_status;
  ClusterView view;
  std::vector<TaskResult> results;
};

ClusterMember::Callbacks Quiet() {
  ClusterMember::Callbacks callbacks;
  callbacks.do_task = [](const Task& task, TaskResult*) {
    return task.kind() == Task::PLAN ? absl::OkStatus() : absl::UnimplementedError("not mine");
  };
  callbacks.collect = [] { return HeartbeatRequest(); };
  return callbacks;
}

TEST_CASE("Cluster member: waits for a scheduler that comes up late, takes its name from it", "[proto][unit]") {
  FakeScheduler scheduler;
  scheduler.unreachable_for = 1;
  ClusterMember member(&scheduler, RegisterRequest(), Quiet());
  REQUIRE(member.Start(absl::Seconds(10)).ok());
  CHECK(member.name() == "made-up");
  CHECK(member.identity().process() == 2);
}

TEST_CASE("Cluster member: says what to check when the scheduler stays away", "[proto][unit]") {
  FakeScheduler scheduler;
  scheduler.unreachable_for = 1000;
  ClusterMember member(&scheduler, RegisterRequest(), Quiet());
  const absl::Status status = member.Start(absl::Milliseconds(50));
  CHECK(absl::IsUnavailable(status));
  CHECK_THAT(std::string(status.message()), Catch::Contains("connection refused") && Catch::Contains("--scheduler"));
}

TEST_CASE("Cluster member: does each task once and repeats its result until it is taken", "[proto][unit]") {
  FakeScheduler scheduler;
  scheduler.task_replies_lost = 1;
  for (int id : {4, 5}) {
    Task* const task = scheduler.view.add_tasks();
    task->set_id(static_cast<uint64_t>(id));
    task->set_kind(id == 4 ? Task::PLAN : Task::DIGEST);
  }
  scheduler.view.set_version(1);
  ClusterMember member(&scheduler, RegisterRequest(), Quiet());
  REQUIRE(member.Start(absl::Seconds(10)).ok());
  REQUIRE(scheduler.Await([&] { return scheduler.results.size() == 2; }));
  {
    MutexLock lock(&scheduler.mu);
    scheduler.view.set_version(2);  // still lists both tasks
  }
  member.AwaitView(1, absl::Seconds(10));
  CHECK(member.view().version() == 2);
  member.Stop();
  REQUIRE(scheduler.results.size() == 2);
  CHECK(scheduler.results[0].id() == 4);
  CHECK(scheduler.results[0].code() == 0);
  CHECK(scheduler.results[1].code() == static_cast<int>(absl::StatusCode::kUnimplemented));
  CHECK(scheduler.results[1].message() == "not mine");
}

TEST_CASE("Cluster member: registers again when it is unknown, ends when it is fenced", "[proto][unit]") {
  FakeScheduler scheduler;
  ClusterMember member(&scheduler, RegisterRequest(), Quiet());
  REQUIRE(member.Start(absl::Seconds(10)).ok());
  {
    MutexLock lock(&scheduler.mu);
    scheduler.heartbeat_status = absl::NotFoundError("register again");
  }
  REQUIRE(scheduler.Await([&] { return scheduler.last_process == 2; }));
  absl::Status reason;
  CHECK_FALSE(member.Ended(&reason));
  {
    MutexLock lock(&scheduler.mu);
    scheduler.heartbeat_status = absl::FailedPreconditionError("a newer process has this name");
  }
  REQUIRE(scheduler.Await([&] { return member.Ended(&reason); }));
  CHECK(reason.message() == "a newer process has this name");
}

TEST_CASE("Cluster member: registers once when several calls learn that it was declared dead", "[proto][unit]") {
  FakeScheduler scheduler;
  ClusterMember member(&scheduler, RegisterRequest(), Quiet());
  REQUIRE(member.Start(absl::Seconds(10)).ok());
  const Identity asked = member.identity();
  const uint64_t start = scheduler.registration.start();
  CHECK(scheduler.registration.former() == 0);
  // The second answer is looked at when the first has led to a new identity.
  for (int call = 0; call < 2; ++call) member.Examine(absl::NotFoundError("declared dead"), asked);
  CHECK(member.identity().process() == 2);
  // By this the scheduler knows it from a successor that was started under its name.
  CHECK(scheduler.registration.former() == asked.process());
  CHECK(scheduler.registration.start() == start);
  CHECK(start != 0);
  member.Examine(absl::FailedPreconditionError("fenced"), asked);
  absl::Status reason;
  CHECK_FALSE(member.Ended(&reason));
  member.Examine(absl::FailedPreconditionError("fenced"), member.identity());
  CHECK(member.Ended(&reason));
}

TEST_CASE("Cluster member: ends without an error when the cluster shuts down", "[proto][unit]") {
  FakeScheduler scheduler;
  scheduler.view.set_version(1);
  scheduler.view.set_shutdown(true);
  ClusterMember member(&scheduler, RegisterRequest(), Quiet());
  REQUIRE(member.Start(absl::Seconds(10)).ok());
  absl::Status reason = absl::UnknownError("");
  REQUIRE(scheduler.Await([&] { return member.Ended(&reason); }));
  CHECK(reason.ok());
}

}  // namespace
}  // namespace shoal
