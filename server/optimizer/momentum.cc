// Momentum. Heavy ball (Polyak 1964): v = mu v + g, w -= rate v. Nesterov's form (Sutskever et al., ICML 2013, as most
// libraries write it): v = mu v + g, w -= rate (g + mu v). State: v.
#include <algorithm>

#include "server/optimizer/row_optimizer.h"

namespace shoal {
namespace {

class MomentumOptimizer : public RowOptimizer {
 public:
  explicit MomentumOptimizer(const Momentum& config)
      : rate_(config.learning_rate()), momentum_(config.momentum()), nesterov_(config.nesterov()) {}
  float learning_rate() const override { return rate_; }
  uint64_t StateSize(uint64_t dim) const override { return dim; }
  void InitState(float* state, uint64_t dim) const override { std::fill_n(state, dim, 0.0f); }
  void Step(const row_kernels::RowBatch& batch, float factor) const override {
    row_kernels::Momentum(batch, rate_ * factor, momentum_, nesterov_);
  }

 private:
  const float rate_;
  const float momentum_;
  const bool nesterov_;
};

}  // namespace

std::unique_ptr<RowOptimizer> MakeMomentum(const Momentum& config) {
  return std::make_unique<MomentumOptimizer>(config);
}

}  // namespace shoal
