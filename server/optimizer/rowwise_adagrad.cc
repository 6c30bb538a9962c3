// Row-wise Adagrad (the "exact row-wise Adagrad" of FBGEMM, used by DLRM, Naumov et al. 2019): one accumulator per row,
// a += mean(g^2), w -= rate * g / (sqrt(a) + epsilon). State: a.
#include <cmath>

#include "server/optimizer/row_optimizer.h"
#include "server/optimizer/sum_squares.h"

namespace shoal {
namespace {

class RowwiseAdagradOptimizer : public RowOptimizer {
 public:
  explicit RowwiseAdagradOptimizer(const RowwiseAdagrad& config)
      : rate_(config.learning_rate()), epsilon_(config.epsilon()), initial_(config.initial_accumulator()) {}
  float learning_rate() const override { return rate_; }
  bool mixes_row() const override { return true; }
  uint64_t StateSize(uint64_t) const override { return 1; }
  void InitState(float* state, uint64_t) const override { state[0] = initial_; }
  void Step(float* __restrict weights, float* __restrict state, const float* __restrict gradient, uint64_t dim,
            float factor) const override {
    const float a = state[0] + SumSquares(gradient, dim) / static_cast<float>(dim);
    state[0] = a;
    const float root = std::sqrt(a) + epsilon_;
    // epsilon may be 0: a zero gradient on a fresh accumulator then moves nothing instead of making a NaN.
    if (!(root > 0)) return;
    const float step = rate_ * factor / root;
    for (uint64_t i = 0; i < dim; ++i) weights[i] -= step * gradient[i];
  }

 private:
  const float rate_;
  const float epsilon_;
  const float initial_;
};

}  // namespace

std::unique_ptr<RowOptimizer> MakeRowwiseAdagrad(const RowwiseAdagrad& config) {
  return std::make_unique<RowwiseAdagradOptimizer>(config);
}

}  // namespace shoal
