// The benchmark job on one ParameterServer in this process, without a network.
#ifndef SHOAL_LOCAL_BENCH_ONE_SERVER_H_
#define SHOAL_LOCAL_BENCH_ONE_SERVER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "local/bench/bench_job.h"
#include "server/parameter_server.h"

namespace shoal {

// Pushes gradients of the benchmark's table, |keys| x dim, to its server. `head`: header, split, lease, records and
// examples of the push. An error, too, when a partition did not take it.
absl::Status PushShare(const BenchShare& share, uint32_t dim, const float* gradients, PushRequest head,
                       ParameterServer* server);

// Not thread-safe.
class OneServer {
 public:
  static absl::StatusOr<std::unique_ptr<OneServer>> Create(const BenchJob& job,
                                                           uint64_t pooled_bytes = uint64_t{128} << 20);

  // Keys of a batch by partition, all of them this server's.
  BenchShare Share(absl::Span<const uint64_t> keys) const;
  // `out` takes |keys| x dim floats.
  absl::Status Pull(const BenchShare& share, float* out);
  absl::Status Push(const BenchShare& share, const float* gradients);
  // Creates all rows of the job.
  absl::Status Fill();
  // What the server accounts for its rows and index.
  uint64_t AccountedBytes() const { return server_.Report(1).bytes(); }

  static constexpr uint64_t kExamples = 512;  // of a push

 private:
  OneServer(const BenchJob& job, const ParameterServerOptions& options) : job_(job), dims_{job.dim}, server_(options) {}

  const BenchJob job_;
  const std::vector<uint32_t> tables_ = {0};
  const std::vector<uint32_t> dims_;
  ParameterServer server_;
  uint64_t records_ = 0;
};

// Memory that the system could still hand out, and that this process has in use.
uint64_t AvailableBytes();
uint64_t ResidentBytes();

}  // namespace shoal

#endif  // SHOAL_LOCAL_BENCH_ONE_SERVER_H_
