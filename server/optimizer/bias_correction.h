// What Adam and AMSGrad share: the step count kept in a row's state and the factors 1 / (1 - beta^t).
#ifndef SHOAL_SERVER_OPTIMIZER_BIAS_CORRECTION_H_
#define SHOAL_SERVER_OPTIMIZER_BIAS_CORRECTION_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

#include "server/optimizer/row_kernels.h"

namespace shoal {

// The step count is the bits of one float of the state; it saturates. Returns the count after this step.
inline uint32_t AdvanceStepCount(float* cell) {
  uint32_t t;
  std::memcpy(&t, cell, sizeof(t));
  if (t != std::numeric_limits<uint32_t>::max()) ++t;
  std::memcpy(cell, &t, sizeof(t));
  return t;
}

// 1 / (1 - beta^t), from a table for small t because a row's step is much cheaper than a power. Immutable.
class BiasCorrection {
 public:
  explicit BiasCorrection(float beta) : beta_(beta) {
    for (uint32_t t = 0; t < kTable; ++t) table_.push_back(Compute(t));
  }
  float At(uint32_t t) const { return t < kTable ? table_[t] : Compute(t); }

 private:
  // beta 0.999 reaches the float 1 before step 2^15; slower decays pay for the power after that.
  static constexpr uint32_t kTable = 1 << 15;
  float Compute(uint32_t t) const {
    return t == 0 ? 1.0f : static_cast<float>(1.0 / (1.0 - std::pow(static_cast<double>(beta_), t)));
  }
  const float beta_;
  std::vector<float> table_;
};

// Advances the step counts of the rows, `count_at` floats into their states, and calls step(rows, corrections) for all
// of them, a few at a time: corrections are first and second of each row.
template <typename Step>
void ForEachCorrection(const row_kernels::RowBatch& batch, size_t count_at, const BiasCorrection& first,
                       const BiasCorrection& second, const Step& step) {
  constexpr size_t kRows = 32;
  float corrections[2 * kRows];
  for (size_t begin = 0; begin < batch.count; begin += kRows) {
    row_kernels::RowBatch some = batch;
    some.rows += begin;
    some.states += begin;
    some.gradients += begin * batch.dim;
    some.count = std::min(kRows, batch.count - begin);
    for (size_t r = 0; r < some.count; ++r) {
      const uint32_t t = AdvanceStepCount(some.states[r] + count_at);
      corrections[2 * r] = first.At(t);
      corrections[2 * r + 1] = second.At(t);
    }
    step(some, corrections);
  }
}

}  // namespace shoal

#endif  // SHOAL_SERVER_OPTIMIZER_BIAS_CORRECTION_H_
