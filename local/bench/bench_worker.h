// A worker that only moves rows: it joins a real cluster and pulls and pushes batches of random keys as lanes do.
#ifndef SHOAL_LOCAL_BENCH_BENCH_WORKER_H_
#define SHOAL_LOCAL_BENCH_BENCH_WORKER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "local/bench/bench_job.h"

namespace shoal {

// Runs the job of bench_job.h through the scheduler's own steps: submit, plan, grants, leases. Not thread-safe.
class BenchWorker {
 public:
  // Returns when every lane has a lease on every server. `keys` a batch.
  static absl::StatusOr<std::unique_ptr<BenchWorker>> Start(const std::string& scheduler, const BenchJob& job,
                                                            uint64_t keys, uint32_t lanes);
  ~BenchWorker();  // cancels the job and leaves

  // Creates all rows.
  absl::Status Fill();
  // Every lane does so many batches; rows that were moved.
  absl::StatusOr<uint64_t> Pull(int batches);
  absl::StatusOr<uint64_t> Push(int batches);

 private:
  class Impl;
  explicit BenchWorker(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace shoal

#endif  // SHOAL_LOCAL_BENCH_BENCH_WORKER_H_
