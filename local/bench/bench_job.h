// The job that the data-plane benchmarks run: one sparse table, and batches of uniform keys of it.
#ifndef SHOAL_LOCAL_BENCH_BENCH_JOB_H_
#define SHOAL_LOCAL_BENCH_BENCH_JOB_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "proto/scheduler.pb.h"

namespace shoal {

struct BenchJob {
  uint32_t dim = 16;
  uint64_t rows = 1'000'000;
  uint32_t partitions = 256;
  std::string optimizer = "rowwise_adagrad";  // a name of job.proto's Optimizer
};

// Unique keys of a batch: Criteo's 26 slots x 512 examples, as ps-lite was measured with.
inline constexpr uint64_t kBenchKeys = 13'312;
// Splits of the job; each may be trained by one lane without end.
inline constexpr int kBenchSplits = 64;

// Row `i` of the table has this key; a bijection, so that keys are as scattered as hashes.
uint64_t BenchKey(uint64_t i);
// Calls push with the keys of all rows, some hundred thousand at a time, up to the first error.
absl::Status PushAllKeys(const BenchJob& job, absl::FunctionRef<absl::Status(const std::vector<uint64_t>& keys)> push);

// The job and its plan: mean gradients, asp, guard on, as a job file without these fields has them.
JobConfig MakeBenchConfig(const BenchJob& job);

// What one server gets of a batch: its keys grouped by partition.
struct BenchShare {
  std::vector<uint32_t> partitions;
  std::vector<uint32_t> counts;
  std::vector<uint64_t> keys;
};
// `owner` by partition.
BenchShare ShareOf(absl::Span<const uint64_t> keys, absl::Span<const uint32_t> owner, uint32_t server);

// `count` different keys of the job's rows, uniform, a function of `seed`. REQUIRES: count <= job.rows.
std::vector<uint64_t> UniformKeys(const BenchJob& job, uint64_t count, uint64_t seed);

}  // namespace shoal

#endif  // SHOAL_LOCAL_BENCH_BENCH_JOB_H_
