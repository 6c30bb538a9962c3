// Adam (Kingma, Ba, ICLR 2015, algorithm 1): m = b1 m + (1-b1) g, v = b2 v + (1-b2) g^2,
// w -= rate * m/(1-b1^t) / (sqrt(v/(1-b2^t)) + epsilon). State: m, v, t.
#include <algorithm>
#include <cmath>

#include "server/optimizer/bias_correction.h"
#include "server/optimizer/row_optimizer.h"

namespace shoal {
namespace {

class AdamOptimizer : public RowOptimizer {
 public:
  explicit AdamOptimizer(const Adam& config)
      : rate_(config.learning_rate()),
        beta1_(config.beta1()),
        beta2_(config.beta2()),
        epsilon_(config.epsilon()),
        first_(config.beta1()),
        second_(config.beta2()) {}
  float learning_rate() const override { return rate_; }
  uint64_t StateSize(uint64_t dim) const override { return 2 * dim + 1; }
  void InitState(float* state, uint64_t dim) const override { std::fill_n(state, 2 * dim + 1, 0.0f); }
  void Step(float* __restrict weights, float* __restrict state, const float* __restrict gradient, uint64_t dim,
            float factor) const override {
    const uint32_t t = AdvanceStepCount(state + 2 * dim);
    const float rate = rate_ * factor;
    const float c1 = first_.At(t), c2 = second_.At(t);
    float* __restrict m = state;
    float* __restrict v = state + dim;
    for (uint64_t i = 0; i < dim; ++i) {
      const float g = gradient[i];
      m[i] = beta1_ * m[i] + (1 - beta1_) * g;
      v[i] = beta2_ * v[i] + (1 - beta2_) * g * g;
      const float root = std::sqrt(v[i] * c2) + epsilon_;
      weights[i] -= root > 0 ? rate * (m[i] * c1) / root : 0.0f;
    }
  }

 private:
  const float rate_, beta1_, beta2_, epsilon_;
  const BiasCorrection first_, second_;
};

}  // namespace

std::unique_ptr<RowOptimizer> MakeAdam(const Adam& config) { return std::make_unique<AdamOptimizer>(config); }

}  // namespace shoal
