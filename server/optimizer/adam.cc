// Adam (Kingma, Ba, ICLR 2015, algorithm 1): m = b1 m + (1-b1) g, v = b2 v + (1-b2) g^2,
// w -= rate * m/(1-b1^t) / (sqrt(v/(1-b2^t)) + epsilon). State: m, v, t.
#include <algorithm>

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
  void Step(const row_kernels::RowBatch& batch, float factor) const override {
    const row_kernels::AdamParameters parameters{rate_ * factor, beta1_, beta2_, epsilon_};
    ForEachCorrection(batch, 2 * batch.dim, first_, second_,
                      [&](const row_kernels::RowBatch& some, const float* corrections) {
                        row_kernels::Adam(some, parameters, corrections);
                      });
  }

 private:
  const float rate_, beta1_, beta2_, epsilon_;
  const BiasCorrection first_, second_;
};

}  // namespace

std::unique_ptr<RowOptimizer> MakeAdam(const Adam& config) { return std::make_unique<AdamOptimizer>(config); }

}  // namespace shoal
