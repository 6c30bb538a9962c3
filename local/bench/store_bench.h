// T3: the in-process store against bare loops that make the same memory accesses.
#ifndef SHOAL_LOCAL_BENCH_STORE_BENCH_H_
#define SHOAL_LOCAL_BENCH_STORE_BENCH_H_

#include "absl/status/statusor.h"
#include "local/bench/bench_row.h"

namespace shoal {

// Pull and push of batches of random rows on one thread, in CPU time, on tables that fit (a size that the free memory
// does not hold is skipped and says so).
absl::StatusOr<BenchRows> RunStoreBench(BenchSize size);

}  // namespace shoal

#endif  // SHOAL_LOCAL_BENCH_STORE_BENCH_H_
