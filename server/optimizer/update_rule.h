// An optimizer as a job configures it: the variant, clipping, regularisation and the schedule.
#ifndef SHOAL_SERVER_OPTIMIZER_UPDATE_RULE_H_
#define SHOAL_SERVER_OPTIMIZER_UPDATE_RULE_H_

#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"
#include "proto/job.pb.h"
#include "server/optimizer/row_optimizer.h"

namespace shoal {

// Steps rows of sparse tables and blocks of dense tensors. Immutable and therefore thread-safe; the caller guards rows.
// Order of a step: clip_value, clip_norm, l1 and l2 (on the clipped gradient), decoupled decay, the variant's step.
class UpdateRule {
 public:
  // INVALID_ARGUMENT names the field, its value and the bound. A config without a variant is refused.
  static absl::StatusOr<std::unique_ptr<UpdateRule>> Create(const Optimizer& config);

  // Factor on the learning rate for a partition that has applied so many examples.
  float Factor(uint64_t examples) const;

  uint64_t RowStateSize(uint64_t dim) const { return variant_->StateSize(dim); }
  void InitRow(float* state, uint64_t dim) const { variant_->InitState(state, dim); }
  // Steps `count` rows: weights at rows[i], state at states[i], gradient at gradients + i * dim, which is overwritten.
  void UpdateRows(float* const* rows, float* const* states, float* gradients, uint64_t count, uint64_t dim,
                  float factor) const;

  // Blocks: `size` weights in rows of `row_size`. REQUIRES: row_size divides size.
  uint64_t BlockStateSize(uint64_t size, uint64_t row_size) const;
  void InitBlock(float* state, uint64_t size, uint64_t row_size) const;
  // clip_norm takes the block as a whole. Overwrites `gradient`.
  void UpdateBlock(float* weights, float* state, float* gradient, uint64_t size, uint64_t row_size, float factor) const;

 private:
  explicit UpdateRule(const Optimizer& config) : config_(config) {}
  void Prepare(float* weights, float* gradient, uint64_t dim, float factor) const;
  // Rows in which the variant steps a block.
  uint64_t StepSize(uint64_t size, uint64_t row_size) const { return variant_->mixes_row() ? row_size : size; }

  const Optimizer config_;
  std::unique_ptr<RowOptimizer> variant_;
  bool prepares_ = false;
};

}  // namespace shoal

#endif  // SHOAL_SERVER_OPTIMIZER_UPDATE_RULE_H_
