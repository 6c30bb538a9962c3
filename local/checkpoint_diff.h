// How two checkpoints differ.
#ifndef SHOAL_LOCAL_CHECKPOINT_DIFF_H_
#define SHOAL_LOCAL_CHECKPOINT_DIFF_H_

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace shoal {

struct CheckpointDiff {
  struct Table {
    std::string name;
    uint64_t rows_before = 0, rows_after = 0;
    uint64_t added = 0, removed = 0;
    uint64_t changed = 0;          // a bit of weights or optimizer state
    uint64_t weights_changed = 0;  // of these: a bit of weights
  };
  struct Tensor {
    std::string name;
    uint64_t floats = 0;
    double norm_before = 0, norm_after = 0;  // Euclidean, of the weights
    double norm_of_difference = 0;
    double max_abs_difference = 0;
    bool state_changed = false;
  };
  std::string before, after;  // directories that were read
  std::vector<Table> tables;
  std::vector<Tensor> tensors;
  std::vector<std::string> only_before, only_after;  // tables and tensors that the other has not, or in another shape

  // No bit of what both have differs, and both have the same.
  bool same() const;
};

// Compares by name, whatever servers and numbers of partitions they have; deltas are resolved. Memory: 24 bytes per row
// of `before` (of one partition of it, when both have the same number), and all tensors.
absl::StatusOr<CheckpointDiff> DiffCheckpoints(const std::string& before, const std::string& after);

std::string DiffText(const CheckpointDiff& diff);
nlohmann::ordered_json DiffJson(const CheckpointDiff& diff);

}  // namespace shoal

#endif  // SHOAL_LOCAL_CHECKPOINT_DIFF_H_
