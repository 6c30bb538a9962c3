// Adagrad, diagonal form (Duchi, Hazan, Singer, JMLR 2011): a += g^2, w -= rate * g / (sqrt(a) + epsilon). State: a.
#include <algorithm>

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
  void Step(const row_kernels::RowBatch& batch, float factor) const override {
    row_kernels::Adagrad(batch, rate_ * factor, epsilon_);
  }

 private:
  const float rate_;
  const float epsilon_;
  const float initial_;
};

}  // namespace

std::unique_ptr<RowOptimizer> MakeAdagrad(const Adagrad& config) { return std::make_unique<AdagradOptimizer>(config); }

}  // namespace shoal
