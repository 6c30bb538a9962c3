// T7: memory of a table beyond its weights and optimizer state.
#ifndef SHOAL_LOCAL_BENCH_MEMORY_BENCH_H_
#define SHOAL_LOCAL_BENCH_MEMORY_BENCH_H_

#include "absl/status/statusor.h"
#include "local/bench/bench_row.h"

namespace shoal {

// Bytes per row beyond weights and state, as the process grows by them (resident memory) and as the table accounts for
// them, for each optimizer and several dimensions; for wide rows also the share of all bytes in their payload.
absl::StatusOr<BenchRows> RunMemoryBench(BenchSize size);

}  // namespace shoal

#endif  // SHOAL_LOCAL_BENCH_MEMORY_BENCH_H_
