// T1 and T2: pull and push over gRPC loopback, real daemons, against raw calls that move the same bytes.
#ifndef SHOAL_LOCAL_BENCH_WIRE_BENCH_H_
#define SHOAL_LOCAL_BENCH_WIRE_BENCH_H_

#include "absl/status/statusor.h"
#include "local/bench/bench_row.h"

namespace shoal {

// A scheduler, two servers and a worker that only moves rows, all processes of this machine. REQUIRES: this binary is
// `shoal`; called on the main thread (ProcessCluster).
absl::StatusOr<BenchRows> RunWireBench(BenchSize size);

}  // namespace shoal

#endif  // SHOAL_LOCAL_BENCH_WIRE_BENCH_H_
