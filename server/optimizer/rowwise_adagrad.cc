// Row-wise Adagrad (the "exact row-wise Adagrad" of FBGEMM, used by DLRM, Naumov et al. 2019): one accumulator per row,
// a += mean(g^2), w -= rate * g / (sqrt(a) + epsilon). State: a.

#include "server/optimizer/row_optimizer.h"

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
  void Step(const row_kernels::RowBatch& batch, float factor) const override {
    row_kernels::RowwiseAdagrad(batch, rate_ * factor, epsilon_);
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
