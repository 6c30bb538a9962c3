// Which server owns which partition of one job, with a connection to each.
#ifndef SHOAL_WORKER_TRAIN_ROUTE_MAP_H_
#define SHOAL_WORKER_TRAIN_ROUTE_MAP_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "worker/client/parameter_client.h"

namespace shoal {

// Immutable; lanes keep the one that they began a batch with.
struct RouteMap {
  uint64_t version = 0;
  struct Server {
    uint64_t process = 0;
    std::shared_ptr<ParameterClient> client;
    std::vector<uint32_t> partitions;  // owned, ascending
  };
  std::vector<Server> servers;  // those that own something
};

}  // namespace shoal

#endif  // SHOAL_WORKER_TRAIN_ROUTE_MAP_H_
