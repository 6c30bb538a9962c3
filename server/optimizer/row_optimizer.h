// The interface of an optimizer: one step on some rows. One file per variant; update_rule.h wraps it with what all
// variants share (clipping, regularisation, schedule).
#ifndef SHOAL_SERVER_OPTIMIZER_ROW_OPTIMIZER_H_
#define SHOAL_SERVER_OPTIMIZER_ROW_OPTIMIZER_H_

#include <cstdint>
#include <memory>

#include "proto/job.pb.h"
#include "server/optimizer/row_kernels.h"

namespace shoal {

// Updates rows in place. Immutable and therefore thread-safe; the caller guards the rows.
class RowOptimizer {
 public:
  virtual ~RowOptimizer() = default;

  // Step size before the schedule's factor.
  virtual float learning_rate() const = 0;
  // True when a step mixes the values of a row, so that a dense block must be stepped row by row.
  virtual bool mixes_row() const { return false; }
  // True when l1 and l2 are the variant's own terms and must not be added to the gradient.
  virtual bool owns_penalty() const { return false; }
  // Floats of state beside `dim` weights.
  virtual uint64_t StateSize(uint64_t dim) const = 0;
  // State of a new row.
  virtual void InitState(float* state, uint64_t dim) const = 0;
  // One step on each row with the learning rate times `factor`. Weights, states and gradients don't overlap.
  virtual void Step(const row_kernels::RowBatch& batch, float factor) const = 0;
};

std::unique_ptr<RowOptimizer> MakeSgd(const Sgd& config);
std::unique_ptr<RowOptimizer> MakeMomentum(const Momentum& config);
std::unique_ptr<RowOptimizer> MakeAdagrad(const Adagrad& config);
std::unique_ptr<RowOptimizer> MakeRowwiseAdagrad(const RowwiseAdagrad& config);
std::unique_ptr<RowOptimizer> MakeAdam(const Adam& config);
std::unique_ptr<RowOptimizer> MakeAmsgrad(const Adam& config);
std::unique_ptr<RowOptimizer> MakeFtrl(const Ftrl& config, float l1, float l2);

}  // namespace shoal

#endif  // SHOAL_SERVER_OPTIMIZER_ROW_OPTIMIZER_H_
