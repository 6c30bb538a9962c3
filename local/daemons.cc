#include "local/daemons.h"

#include <spdlog/spdlog.h>
#include <unistd.h>

#include <cstdio>
#include <memory>

#include "absl/strings/str_cat.h"
#include "base/machine.h"
#include "base/status_macros.h"
#include "proto/rpc/address.h"
#include "proto/rpc/grpc_scheduler_client.h"
#include "scheduler/rpc/scheduler_service.h"
#include "scheduler/scheduler.h"
#include "server/agent.h"
#include "server/parameter_server.h"
#include "server/rpc/parameter_service.h"
#include "worker/client/grpc_parameter_client.h"
#include "worker/train/worker_agent.h"

namespace shoal {
namespace {

// How often a daemon looks whether the scheduler has ended it.
constexpr absl::Duration kPoll = absl::Milliseconds(200);

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

// Until a stop signal (true) or until the scheduler has ended the process (false, *reason).
template <typename Agent>
bool WaitForEnd(const Agent& agent, StopSignals* stop, absl::Status* reason) {
  while (!stop->WaitFor(kPoll)) {
    if (agent.Ended(reason)) return false;
  }
  return true;
}

void LogEnd(const std::string& name, bool stopped, const absl::Status& reason) {
  if (stopped) {
    spdlog::info("{}: stop signal, leaving the cluster", name);
  } else if (reason.ok()) {
    spdlog::info("{}: the scheduler shuts the cluster down", name);
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
  absl::Status reason;
  const bool stopped = WaitForEnd(*agent, stop, &reason);
  LogEnd(agent->name(), stopped, reason);
  if (stopped) {
    const absl::Status left = agent->Leave(options.grace_period);
    if (!left.ok()) spdlog::warn("{}: could not tell the scheduler: {}", agent->name(), left.ToString());
  }
  // Calls that the agent's threads are waiting in would otherwise hold up its end.
  scheduler->Abort();
  agent.reset();
  grpc->Shutdown(absl::Milliseconds(200));
  return reason;
}

absl::Status RunWorkerDaemon(const WorkerDaemonOptions& options, StopSignals* stop) {
  SHOAL_ASSIGN_OR_RETURN(const std::unique_ptr<GrpcSchedulerClient> scheduler,
                         GrpcSchedulerClient::Create(options.scheduler));
  WorkerOptions worker;
  worker.name = MakeName(options.name, "worker");
  worker.threads = options.threads;
  worker.scheduler = scheduler.get();
  worker.connect = [](const ServerAddress& server) -> absl::StatusOr<std::unique_ptr<ParameterClient>> {
    SHOAL_ASSIGN_OR_RETURN(std::unique_ptr<GrpcParameterClient> client, GrpcParameterClient::Create(server.address()));
    return std::unique_ptr<ParameterClient>(std::move(client));
  };
  SHOAL_ASSIGN_OR_RETURN(std::unique_ptr<WorkerAgent> agent, WorkerAgent::Start(worker, options.connect_timeout));
  PrintReady(absl::StrCat("worker ", agent->name(), " joined ", options.scheduler));
  absl::Status reason;
  const bool stopped = WaitForEnd(*agent, stop, &reason);
  LogEnd(agent->name(), stopped, reason);
  if (stopped || reason.ok()) {
    const absl::Status drained = agent->Drain(options.grace_period);
    // The cluster is told by silence then; no example is lost by it.
    if (!drained.ok()) spdlog::warn("{}: not drained: {}", agent->name(), drained.ToString());
  }
  scheduler->Abort();
  agent.reset();
  return reason;
}

}  // namespace shoal
