#include "local/bench/benchmarks.h"

#include "local/bench/store_bench.h"

namespace shoal {

const std::vector<Benchmark>& Benchmarks() {
  static const auto* const all = new std::vector<Benchmark>{
      {"store", "pull and push of rows in process", true, RunStoreBench},
  };
  return *all;
}

}  // namespace shoal
