// The scheduler across a real connection: a Scheduler, its gRPC server and a client.
#include <catch2/catch.hpp>
#include <string>
#include <thread>

#include "absl/time/clock.h"
#include "proto/protocol_version.h"
#include "proto/rpc/grpc_scheduler_client.h"
#include "scheduler/rpc/scheduler_service.h"
#include "scheduler/scheduler.h"

namespace shoal {
namespace {

using Catch::Contains;

constexpr absl::Duration kTimeout = absl::Seconds(60);

struct Rig {
  std::unique_ptr<Scheduler> scheduler;
  std::unique_ptr<SchedulerGrpcServer> grpc;
  std::unique_ptr<GrpcSchedulerClient> client;
};

Rig Start() {
  Rig rig;
  auto scheduler = Scheduler::Create(SchedulerOptions{});
  REQUIRE(scheduler.ok());
  rig.scheduler = *std::move(scheduler);
  auto grpc = SchedulerGrpcServer::Start(rig.scheduler.get(), {});
  REQUIRE(grpc.ok());
  rig.grpc = *std::move(grpc);
  auto client = GrpcSchedulerClient::Create(rig.grpc->address());
  REQUIRE(client.ok());
  rig.client = *std::move(client);
  return rig;
}

absl::StatusOr<RegisterReply> RegisterWorker(SchedulerClient* client, const std::string& name) {
  RegisterRequest request;
  request.set_name(name);
  request.set_role(WORKER);
  request.set_threads(2);
  request.set_protocol_version(kProtocolVersion);
  return client->Register(request, kTimeout);
}

TEST_CASE("Scheduler rpc: a process registers, reports and is listed", "[rpc][unit]") {
  Rig rig = Start();
  const auto reply = RegisterWorker(rig.client.get(), "w1");
  INFO(reply.status());
  REQUIRE(reply.ok());
  CHECK(reply->name() == "w1");
  HeartbeatRequest heartbeat;
  heartbeat.mutable_identity()->set_process(reply->process());
  CHECK(rig.client->Heartbeat(heartbeat, kTimeout).ok());
  const auto status = rig.client->Status({}, kTimeout);
  REQUIRE(status.ok());
  REQUIRE(status->processes_size() == 1);
  CHECK(status->processes(0).name() == "w1");
  CHECK(status->processes(0).threads() == 2);
  CHECK(rig.client->ListJobs({}, kTimeout)->jobs_size() == 0);
  LeaveRequest leave;
  leave.mutable_identity()->set_process(reply->process());
  CHECK(rig.client->Leave(leave, kTimeout).ok());
}

TEST_CASE("Scheduler rpc: errors arrive with code and message", "[rpc][unit]") {
  Rig rig = Start();
  JobRef ref;
  ref.set_job(4711);
  const absl::Status unknown = rig.client->Cancel(ref, kTimeout).status();
  CHECK(unknown.code() == absl::StatusCode::kNotFound);
  CHECK_THAT(std::string(unknown.message()), Contains("4711"));
  HeartbeatRequest heartbeat;
  heartbeat.mutable_identity()->set_process(99);
  CHECK_FALSE(rig.client->Heartbeat(heartbeat, kTimeout).ok());
}

TEST_CASE("Scheduler rpc: a parked watch ends when its wait is over, by the server's own ticks", "[rpc][unit]") {
  Rig rig = Start();
  const auto me = RegisterWorker(rig.client.get(), "w1");
  REQUIRE(me.ok());
  WatchRequest watch;
  watch.mutable_identity()->set_process(me->process());
  const auto first = rig.client->Watch(watch, kTimeout);
  REQUIRE(first.ok());
  watch.set_known_version(first->version());
  watch.set_wait_ms(200);
  const absl::Time start = absl::Now();
  const auto second = rig.client->Watch(watch, kTimeout);
  REQUIRE(second.ok());
  if (second->version() == first->version()) CHECK(absl::Now() - start >= absl::Milliseconds(190));
}

TEST_CASE("Scheduler rpc: abort and shutdown end parked calls", "[rpc][unit]") {
  Rig rig = Start();
  const auto me = RegisterWorker(rig.client.get(), "w1");
  REQUIRE(me.ok());
  const bool abort = GENERATE(true, false);
  // A question for work parks: there are no jobs.
  absl::Status result;
  std::thread parked([&] {
    NextWorkRequest ask;
    ask.mutable_identity()->set_process(me->process());
    ask.set_sequence(1);
    ask.set_wait_ms(60000);
    result = rig.client->NextWork(ask, absl::Seconds(100)).status();
  });
  const absl::Time start = absl::Now();
  if (abort) {
    rig.client->Abort();
  } else {
    rig.grpc->Shutdown(absl::Milliseconds(200));
  }
  parked.join();
  CHECK(absl::Now() - start < absl::Seconds(30));
  CHECK(result.code() == (abort ? absl::StatusCode::kCancelled : absl::StatusCode::kUnavailable));
}

TEST_CASE("Scheduler rpc: a scheduler that is not there is UNAVAILABLE with its address", "[rpc][unit]") {
  std::string address;
  {
    Rig rig = Start();
    address = rig.grpc->address();
  }
  const auto client = GrpcSchedulerClient::Create(address);
  REQUIRE(client.ok());
  const absl::Status status = (*client)->Status({}, kTimeout).status();
  CHECK(absl::IsUnavailable(status));
  CHECK_THAT(std::string(status.message()), Contains(address));
  CHECK(GrpcSchedulerClient::Create("no port").status().code() == absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace shoal
