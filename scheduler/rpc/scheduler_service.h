// Puts a Scheduler on the network.
#ifndef SHOAL_SCHEDULER_RPC_SCHEDULER_SERVICE_H_
#define SHOAL_SCHEDULER_RPC_SCHEDULER_SERVICE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "proto/rpc/grpc_server.h"
#include "proto/rpc/ticker.h"
#include "scheduler/scheduler.h"

namespace shoal {

// Thread-safe. Handlers never block; a parked call holds no thread. Owns the thread that calls Scheduler::Tick.
class SchedulerGrpcServer {
 public:
  // `scheduler` outlives this. Errors: as GrpcServer::Start.
  static absl::StatusOr<std::unique_ptr<SchedulerGrpcServer>> Start(Scheduler* scheduler,
                                                                    const GrpcServerOptions& options);
  ~SchedulerGrpcServer();  // Shutdown without grace

  // The host of the options with the real port.
  const std::string& address() const;
  // Gives calls in flight `grace`, then answers them (parked ones) with UNAVAILABLE. New calls get that, too.
  void Shutdown(absl::Duration grace);

 private:
  class Service;
  SchedulerGrpcServer(Scheduler* scheduler, std::unique_ptr<Service> service, std::unique_ptr<GrpcServer> grpc);

  const std::unique_ptr<Service> service_;
  const std::unique_ptr<GrpcServer> grpc_;  // after the service, which it calls
  Ticker ticker_;
};

}  // namespace shoal

#endif  // SHOAL_SCHEDULER_RPC_SCHEDULER_SERVICE_H_
