// A chain of checkpoints as one.
#ifndef SHOAL_SERVER_CHECKPOINT_MERGE_H_
#define SHOAL_SERVER_CHECKPOINT_MERGE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"

namespace shoal {

struct MergeReport {
  std::string source;   // directory of the newest checkpoint that was read
  std::string written;  // directory that was written
  uint64_t links = 0;   // checkpoints that went into it
  uint64_t partitions = 0;
  uint64_t rows = 0;
  uint64_t counted = 0;
  uint64_t bytes = 0;  // of the part that was written
};

// Writes what the checkpoint at `path` (or the newest of a directory) amounts to as a full one, in the new directory
// `output`: the state of the store when it was cut, bit for bit. ALREADY_EXISTS when there is something. Memory: one
// partition.
absl::StatusOr<MergeReport> MergeCheckpoint(const std::string& path, const std::string& output);

}  // namespace shoal

#endif  // SHOAL_SERVER_CHECKPOINT_MERGE_H_
