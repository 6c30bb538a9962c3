// What a job's tables look like and how they are updated, resolved once from the job's config.
#ifndef SHOAL_SERVER_STORE_JOB_SCHEMA_H_
#define SHOAL_SERVER_STORE_JOB_SCHEMA_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/scheduler.pb.h"
#include "proto/wire/dense_layout.h"
#include "server/checkpoint/expiry.h"
#include "server/checkpoint/part_format.h"
#include "server/optimizer/update_rule.h"

namespace shoal {

struct SparseSchema {
  std::string name;
  uint64_t name_hash = 0;
  uint32_t dim = 0;
  uint32_t state = 0;  // floats of optimizer state beside them
  float init_stddev = 0;
};

enum class SyncMode : uint8_t { kAsp, kSsp, kBsp };

// Immutable, shared by the partitions of a job.
struct JobSchema {
  // INVALID_ARGUMENT names the field, its value and the bound.
  static absl::StatusOr<std::shared_ptr<const JobSchema>> Create(const JobConfig& config);

  uint64_t seed = 0;
  uint32_t partitions = 0;
  uint64_t passes = 1;
  uint64_t splits = 0;  // per pass
  std::vector<SparseSchema> tables;
  std::vector<TensorSpec> tensors;
  std::vector<std::string> slots;  // names; empty when the job has none
  // What slots of keys are below.
  uint32_t slot_count() const { return slots.empty() ? 1 : static_cast<uint32_t>(slots.size()); }
  DenseLayout layout;
  PartHeader header;   // of its partitions' sections; job and run are 0
  uint64_t shape = 0;  // hash of the header: equal where images of partitions fit
  std::unique_ptr<UpdateRule> sparse_rule;
  std::unique_ptr<UpdateRule> dense_rule;
  bool mean = true;  // divide gradient sums by examples
  bool guard = true;
  float max_abs = 0;
  uint32_t min_count = 1;
  Expiry expiry{0};
  WarmStart warm_start;            // no checkpoint: none
  OptimizerPair optimizer;         // what the rules below were made of
  bool delta_checkpoints = false;  // partitions remember what changed since the last one
  uint64_t soft_limit_bytes = 0;   // 0: none
  uint64_t hard_limit_bytes = 0;
  SyncMode sync = SyncMode::kAsp;
  uint64_t staleness = 0;  // ssp
  uint32_t lanes = 0;      // bsp: logical lanes
};

}  // namespace shoal

#endif  // SHOAL_SERVER_STORE_JOB_SCHEMA_H_
