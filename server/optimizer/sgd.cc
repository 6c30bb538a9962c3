// Stochastic gradient descent (Robbins, Monro 1951): w -= rate * g.
#include "server/optimizer/row_optimizer.h"

namespace shoal {
namespace {

class SgdOptimizer : public RowOptimizer {
 public:
  explicit SgdOptimizer(const Sgd& config) : rate_(config.learning_rate()) {}
  float learning_rate() const override { return rate_; }
  uint64_t StateSize(uint64_t) const override { return 0; }
  void InitState(float*, uint64_t) const override {}
  void Step(const row_kernels::RowBatch& batch, float factor) const override {
    row_kernels::Sgd(batch, rate_ * factor);
  }

 private:
  const float rate_;
};

}  // namespace

std::unique_ptr<RowOptimizer> MakeSgd(const Sgd& config) { return std::make_unique<SgdOptimizer>(config); }

}  // namespace shoal
