#include "local/daemons.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/buffer_pool.h"
#include "base/clock.h"
#include "base/machine.h"
#include "base/status_macros.h"
#include "proto/rpc/address.h"
#include "proto/rpc/grpc_scheduler_client.h"
#include "scheduler/rpc/scheduler_service.h"
#include "scheduler/scheduler.h"
#include "server/agent.h"
#include "server/parameter_server.h"
#include "server/rpc/grpc_replica_client.h"
#include "server/rpc/parameter_service.h"
#include "worker/client/grpc_parameter_client.h"
#include "worker/train/worker_agent.h"

namespace shoal {
namespace {

// How often a daemon looks whether the scheduler has ended it.
constexpr absl::Duration kPoll = absl::Milliseconds(200);

// A machine that is announced to go is left so much earlier.
constexpr absl::Duration kSpotMargin = absl::Seconds(1);

constexpr absl::Duration kAskTimeout = absl::Seconds(5);
constexpr absl::Duration kLeaveTimeout = absl::Seconds(2);

// Calls in flight at a scheduler's end are parked ones, which can be asked again elsewhere.
constexpr absl::Duration kSchedulerGrace = absl::Milliseconds(100);

bool IsWildcard(const std::string& host) { return host.empty() || host == "0.0.0.0" || host == "::"; }

GrpcServerOptions ToGrpcOptions(const ListenOptions& options) {
  GrpcServerOptions grpc;
  grpc.address = options.address;
  grpc.insecure = options.insecure;
  return grpc;
}

// Programs wait for this line, so it must not stay in a buffer.
void PrintReady(const std::string& line) {
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

std::string MakeName(const std::string& name, const char* role) {
  return name.empty() ? absl::StrCat(role, "-", HostName(), "-", getpid()) : name;
}

// `bound` is the listening address with its real port.
absl::StatusOr<std::string> AdvertisedAddress(const ListenOptions& options, const std::string& bound) {
  if (options.advertise.empty()) return bound;
  if (ParseAddress(options.advertise).ok()) return options.advertise;
  SHOAL_ASSIGN_OR_RETURN(Address address, ParseAddress(bound));
  address.host = options.advertise;
  return FormatAddress(address);
}

// Why a daemon ends, and how long it may take.
struct End {
  bool told = false;    // by a signal or a spot notice; else the scheduler has ended the process
  absl::Status reason;  // of the scheduler: OK when the process is to go in peace
  std::string why;
  absl::Duration grace;
};

// `released`: the time that the process takes when the scheduler, which knows what others still need of it, lets it go.
template <typename Agent>
End WaitForEnd(const Agent& agent, absl::Duration grace_period, absl::Duration released, const char* to_do,
               const SpotNotices& spot, StopSignals* stop) {
  End end;
  end.grace = grace_period;
  for (;;) {
    if (stop->WaitFor(kPoll)) {
      end.told = true;
      end.why = "stop signal";
      break;
    }
    if (const absl::optional<SpotNotice> notice = spot.notice()) {
      end.told = true;
      end.why = "spot notice: " + notice->what;
      end.grace = std::max(notice->left - kSpotMargin, absl::ZeroDuration());
      break;
    }
    if (agent.Ended(&end.reason)) {
      end.grace = released;
      end.why = "the scheduler tells it to go";
      break;
    }
  }
  if (end.told || end.reason.ok()) {
    spdlog::info("{}: {}; leaving {}", agent.name(), end.why,
                 end.grace > absl::ZeroDuration()
                     ? absl::StrCat("once ", to_do, ", in ", absl::FormatDuration(end.grace), " at the latest")
                     : "at once");
  }
  return end;
}

// Asks for a new place for the server's partitions and waits until the scheduler says that they have one.
void HandOver(const ServerAgent& agent, const End& end, SchedulerClient* scheduler) {
  if (end.grace <= absl::ZeroDuration()) return;
  const Clock& clock = Clock::Steady();
  const absl::Duration limit = clock.Now() + end.grace;
  DrainRequest request;
  request.set_name(agent.name());
  request.set_grace_ms(static_cast<uint32_t>(absl::ToInt64Milliseconds(end.grace)));
  request.set_reason(end.why);
  const absl::Status asked = scheduler->Drain(request, std::min(end.grace, kAskTimeout)).status();
  if (!asked.ok()) {
    spdlog::warn("{}: its partitions cannot be handed over: {}", agent.name(), asked.ToString());
    return;
  }
  absl::Status reason;
  while (!agent.Ended(&reason)) {
    const absl::Duration left = limit - clock.Now();
    if (left <= absl::ZeroDuration()) {
      spdlog::warn("{}: partitions are still here after {}", agent.name(), absl::FormatDuration(end.grace));
      return;
    }
    absl::SleepFor(std::min(left, kPoll));
  }
}

}  // namespace

absl::Status CheckListen(const ListenOptions& options) { return CheckBindAllowed(options.address, options.insecure); }

absl::Status RunSchedulerDaemon(const SchedulerDaemonOptions& options, StopSignals* stop) {
  SHOAL_RETURN_IF_ERROR(CheckListen(options.listen));
  SchedulerOptions scheduler_options;
  scheduler_options.state_path = options.state_path;
  scheduler_options.heartbeat = options.heartbeat;
  scheduler_options.deadline = options.deadline;
  SHOAL_ASSIGN_OR_RETURN(const std::unique_ptr<Scheduler> scheduler, Scheduler::Create(scheduler_options));
  SHOAL_ASSIGN_OR_RETURN(const std::unique_ptr<SchedulerGrpcServer> server,
                         SchedulerGrpcServer::Start(scheduler.get(), ToGrpcOptions(options.listen)));
  PrintReady("listening on " + server->address());
  while (!stop->WaitFor(kPoll)) {
  }
  spdlog::info("scheduler: stop signal, shutting down");
  server->Shutdown(kSchedulerGrace);
  return absl::OkStatus();
}

absl::Status RunServerDaemon(const ServerDaemonOptions& options, StopSignals* stop) {
  KeepFreedMemory();
  SHOAL_RETURN_IF_ERROR(CheckListen(options.listen));
  SHOAL_ASSIGN_OR_RETURN(const Address listen, ParseAddress(options.listen.address));
  if (IsWildcard(listen.host) && options.listen.advertise.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("--listen ", options.listen.address,
                                                   " is no address that workers can connect to: add --advertise HOST"));
  }
  ServerAgentOptions agent_options;
  agent_options.name = MakeName(options.name, "server");
  ParameterServerOptions server_options;
  server_options.name = agent_options.name;
  server_options.connect = [](const ServerAddress& to) -> absl::StatusOr<std::unique_ptr<ReplicaClient>> {
    SHOAL_ASSIGN_OR_RETURN(std::unique_ptr<GrpcReplicaClient> client, GrpcReplicaClient::Create(to.address()));
    return std::unique_ptr<ReplicaClient>(std::move(client));
  };
  ParameterServer server(server_options);
  SHOAL_ASSIGN_OR_RETURN(const std::unique_ptr<ParameterGrpcServer> grpc,
                         ParameterGrpcServer::Start(&server, ToGrpcOptions(options.listen)));
  SHOAL_ASSIGN_OR_RETURN(const std::unique_ptr<GrpcSchedulerClient> scheduler,
                         GrpcSchedulerClient::Create(options.scheduler));
  SHOAL_ASSIGN_OR_RETURN(agent_options.address, AdvertisedAddress(options.listen, grpc->address()));
  agent_options.server = &server;
  agent_options.scheduler = scheduler.get();
  SHOAL_ASSIGN_OR_RETURN(std::unique_ptr<ServerAgent> agent,
                         ServerAgent::Start(agent_options, options.connect_timeout));
  PrintReady("listening on " + grpc->address());
  const SpotNotices spot(options.spot);
  const End end =
      WaitForEnd(*agent, options.grace_period, absl::ZeroDuration(), "its partitions are handed over", spot, stop);
  if (end.told) HandOver(*agent, end, scheduler.get());
  if (end.told || end.reason.ok()) {
    const absl::Status left = agent->Leave(kLeaveTimeout);
    if (!left.ok()) spdlog::warn("{}: could not tell the scheduler: {}", agent->name(), left.ToString());
  }
  // Calls that the agent's threads are waiting in would otherwise hold up its end.
  scheduler->Abort();
  agent.reset();
  grpc->Shutdown(absl::Milliseconds(200));
  return end.reason;
}

absl::Status RunWorkerDaemon(const WorkerDaemonOptions& options, StopSignals* stop) {
  KeepFreedMemory();
  SHOAL_ASSIGN_OR_RETURN(const std::unique_ptr<GrpcSchedulerClient> scheduler,
                         GrpcSchedulerClient::Create(options.scheduler));
  WorkerOptions worker;
  worker.name = MakeName(options.name, "worker");
  worker.threads = options.threads;
  worker.scheduler = scheduler.get();
  worker.before_batch = options.before_batch;
  worker.warn = [name = worker.name](const std::string& what) { spdlog::warn("{}: {}", name, what); };
  worker.connect = [&options, buffers = BufferPool::Create(kIdleBufferBytes)](
                       const ServerAddress& server) -> absl::StatusOr<std::unique_ptr<ParameterClient>> {
    SHOAL_ASSIGN_OR_RETURN(std::unique_ptr<ParameterClient> client,
                           GrpcParameterClient::Create(server.address(), {}, buffers));
    return options.wrap ? options.wrap(server, std::move(client)) : std::move(client);
  };
  SHOAL_ASSIGN_OR_RETURN(std::unique_ptr<WorkerAgent> agent, WorkerAgent::Start(worker, options.connect_timeout));
  PrintReady(absl::StrCat("worker ", agent->name(), " joined ", options.scheduler));
  const SpotNotices spot(options.spot);
  const End end = WaitForEnd(*agent, options.grace_period, options.grace_period, "its batches are done", spot, stop);
  if (end.told || end.reason.ok()) {
    const absl::Status drained = agent->Drain(end.grace);
    // The cluster is told by silence then; no example is lost by it.
    if (!drained.ok()) spdlog::warn("{}: not drained: {}", agent->name(), drained.ToString());
  }
  scheduler->Abort();
  agent.reset();
  return end.reason;
}

}  // namespace shoal
