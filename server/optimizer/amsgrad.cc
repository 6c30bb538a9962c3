// AMSGrad (Reddi, Kale, Kumar, ICLR 2018) with Adam's bias correction, as PyTorch writes it: m and v as in Adam,
// u = max(u, v), w -= rate * m/(1-b1^t) / (sqrt(u/(1-b2^t)) + epsilon). State: m, v, u, t.
#include <algorithm>

#include "server/optimizer/bias_correction.h"
#include "server/optimizer/row_optimizer.h"

namespace shoal {
namespace {

class AmsgradOptimizer : public RowOptimizer {
 public:
  explicit AmsgradOptimizer(const Adam& config)
      : rate_(config.learning_rate()),
        beta1_(config.beta1()),
        beta2_(config.beta2()),
        epsilon_(config.epsilon()),
        first_(config.beta1()),
        second_(config.beta2()) {}
  float learning_rate() const override { return rate_; }
  uint64_t StateSize(uint64_t dim) const override { return 3 * dim + 1; }
  void InitState(float* state, uint64_t dim) const override { std::fill_n(state, 3 * dim + 1, 0.0f); }
  void Step(const row_kernels::RowBatch& batch, float factor) const override {
    const row_kernels::AdamParameters parameters{rate_ * factor, beta1_, beta2_, epsilon_};
    ForEachCorrection(batch, 3 * batch.dim, first_, second_,
                      [&](const row_kernels::RowBatch& some, const float* corrections) {
                        row_kernels::Amsgrad(some, parameters, corrections);
                      });
  }

 private:
  const float rate_, beta1_, beta2_, epsilon_;
  const BiasCorrection first_, second_;
};

}  // namespace

std::unique_ptr<RowOptimizer> MakeAmsgrad(const Adam& config) { return std::make_unique<AmsgradOptimizer>(config); }

}  // namespace shoal
