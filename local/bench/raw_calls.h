// The ceiling of the data plane: raw unary calls that move the same bytes, without rows, checks or copies that gRPC
// does not force.
#ifndef SHOAL_LOCAL_BENCH_RAW_CALLS_H_
#define SHOAL_LOCAL_BENCH_RAW_CALLS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "local/bench/bench_row.h"

namespace shoal {

// Serves raw calls in this process and prints "listening on HOST:PORT"; ends with its standard input. (What RawServers
// start: a benchmark's other side runs in processes of its own, as the servers do.)
absl::StatusOr<BenchRows> RunRawServer(BenchSize size);

// Processes that run this binary's `bench raw-server`, and lanes that call them. Not thread-safe.
class RawServers {
 public:
  static absl::StatusOr<std::unique_ptr<RawServers>> Start(int servers, uint32_t lanes);
  ~RawServers();

  // Every lane calls all servers so many times, `request` bytes to each and `reply` bytes back, which end in memory of
  // the lane.
  absl::Status Call(int times, uint64_t request, uint64_t reply);

 private:
  class Impl;
  explicit RawServers(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace shoal

#endif  // SHOAL_LOCAL_BENCH_RAW_CALLS_H_
