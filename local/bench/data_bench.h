// Reading text into batches, hashing included, beside counting lines at memchr's speed (T8).
#ifndef SHOAL_LOCAL_BENCH_DATA_BENCH_H_
#define SHOAL_LOCAL_BENCH_DATA_BENCH_H_

#include "absl/status/statusor.h"
#include "local/bench/bench_row.h"

namespace shoal {

absl::StatusOr<BenchRows> RunDataBench(BenchSize size);

}  // namespace shoal

#endif  // SHOAL_LOCAL_BENCH_DATA_BENCH_H_
