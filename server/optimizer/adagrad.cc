// Adagrad, diagonal form (Duchi, Hazan, Singer, JMLR 2011): a += g^2, w -= rate * g / (sqrt(a) + epsilon). State: a.
#include <algorithm>
#include <cmath>

#include "server/optimizer/row_optimizer.h"

namespace shoal {
namespace {

class AdagradOptimizer : public RowOptimizer {
 public:
  explicit AdagradOptimizer(const Adagrad& config)
      : rate_(config.learning_rate()), epsilon_(config.epsilon()), initial_(config.initial_accumulator()) {}
  float learning_rate() const override { return rate_; }
  uint64_t StateSize(uint64_t dim) const override { return dim; }
  void InitState(float* state, uint64_t dim) const override { std::fill_n(state, dim, initial_); }
  void Step(float* __restrict weights, float* __restrict state, const float* __restrict gradient, uint64_t dim,
            float factor) const override {
    const float rate = rate_ * factor;
    for (uint64_t i = 0; i < dim; ++i) {
      const float g = gradient[i];
      const float a = state[i] + g * g;
      state[i] = a;
      const float root = std::sqrt(a) + epsilon_;
      // epsilon may be 0: a zero gradient on a fresh accumulator then moves nothing instead of making a NaN.
      weights[i] -= root > 0 ? rate * g / root : 0.0f;
    }
  }

 private:
  const float rate_;
  const float epsilon_;
  const float initial_;
};

}  // namespace

std::unique_ptr<RowOptimizer> MakeAdagrad(const Adagrad& config) { return std::make_unique<AdagradOptimizer>(config); }

}  // namespace shoal
