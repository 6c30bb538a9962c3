// Proof that a bsp job gives the same bits however its logical lanes are spread.
#ifndef SHOAL_LOCAL_PARITY_H_
#define SHOAL_LOCAL_PARITY_H_

#include <atomic>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/job.pb.h"
#include "proto/scheduler.pb.h"

namespace shoal {

// One way to run the job, and what came out.
struct ParityRun {
  std::string name;  // "1 process x 4 threads"
  JobStatus status;
};

struct ParityResult {
  std::vector<ParityRun> runs;
  bool equal = false;  // all digests of all tables
};

// Trains `job` with one thread, with four threads, and with two worker processes of two threads on two servers over
// gRPC. INVALID_ARGUMENT unless its sync is bsp; fails with the reason when a run doesn't succeed. Evaluation and
// checkpoints are left out, since neither changes a parameter. REQUIRES: called on the main thread (ProcessCluster).
absl::StatusOr<ParityResult> VerifyParity(const Job& job, const std::atomic<bool>* stop);

// A table of digests, one line per run and table, and the verdict.
std::string ParityText(const ParityResult& result);
// One JSON object.
std::string ParityJson(const std::string& job, const ParityResult& result);

}  // namespace shoal

#endif  // SHOAL_LOCAL_PARITY_H_
