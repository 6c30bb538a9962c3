// The counting job (docs/semantics.md section 1): what its rows must be, and what a checkpoint's rows are.
#ifndef SHOAL_TESTS_TESTING_COUNTING_H_
#define SHOAL_TESTS_TESTING_COUNTING_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/job.pb.h"

namespace shoal {

// Sums by key (sparse table) and of the dense tensor (key 0).
struct Counts {
  std::map<uint64_t, std::vector<float>> rows;
  std::vector<float> dense;
};

// Reads the job's input record by record, without any cluster, and adds up what each record pushes, times the passes.
absl::StatusOr<Counts> ExpectedCounts(const Job& job);
// The rows of the newest checkpoint in the job's checkpoint.dir.
absl::StatusOr<Counts> CheckpointCounts(const Job& job);
// Empty when equal, else what differs first.
std::string CountsDifference(const Counts& expected, const Counts& actual);

}  // namespace shoal

#endif  // SHOAL_TESTS_TESTING_COUNTING_H_
