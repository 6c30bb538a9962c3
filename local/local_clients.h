// Clients that call the core of a scheduler or a server directly: no serialization, no network.
#ifndef SHOAL_LOCAL_LOCAL_CLIENTS_H_
#define SHOAL_LOCAL_LOCAL_CLIENTS_H_

#include <memory>

#include "proto/scheduler_client.h"
#include "scheduler/scheduler.h"
#include "server/parameter_server.h"
#include "server/replication/replica_client.h"
#include "worker/client/parameter_client.h"

namespace shoal {

// Calls a Scheduler and waits for its answers; a call that outlives its timeout answers DEADLINE_EXCEEDED. Thread-safe.
std::unique_ptr<SchedulerClient> NewLocalSchedulerClient(Scheduler* scheduler);

// Calls a ParameterServer. After the server is gone (`server` expired) calls answer UNAVAILABLE. Thread-safe.
std::unique_ptr<ParameterClient> NewLocalParameterClient(std::weak_ptr<ParameterServer> server);

// The same for copies between servers.
std::unique_ptr<ReplicaClient> NewLocalReplicaClient(std::weak_ptr<ParameterServer> server);

}  // namespace shoal

#endif  // SHOAL_LOCAL_LOCAL_CLIENTS_H_
