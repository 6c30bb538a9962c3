#include "local/bench/benchmarks.h"

#include "local/bench/data_bench.h"
#include "local/bench/memory_bench.h"
#include "local/bench/raw_calls.h"
#include "local/bench/store_bench.h"
#include "local/bench/wire_bench.h"

namespace shoal {

const std::vector<Benchmark>& Benchmarks() {
  static const auto* const all = new std::vector<Benchmark>{
      {"data", "text parsed into batches", true, RunDataBench},
      {"store", "pull and push of rows in process", true, RunStoreBench},
      {"memory", "bytes a row", true, RunMemoryBench},
      {"wire", "pull and push over gRPC loopback", true, RunWireBench},
      {"raw-server", "the other side of wire; ends with its standard input", false, RunRawServer},
  };
  return *all;
}

}  // namespace shoal
