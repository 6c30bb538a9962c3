// The benchmarks that `shoal bench` offers.
#ifndef SHOAL_LOCAL_BENCH_BENCHMARKS_H_
#define SHOAL_LOCAL_BENCH_BENCHMARKS_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "local/bench/bench_row.h"

namespace shoal {

struct Benchmark {
  std::string name;
  std::string about;
  bool by_default;  // part of `shoal bench` without names: its quick size ends in a minute
  absl::StatusOr<BenchRows> (*run)(BenchSize size);
};

// In the order in which they run.
const std::vector<Benchmark>& Benchmarks();

}  // namespace shoal

#endif  // SHOAL_LOCAL_BENCH_BENCHMARKS_H_
