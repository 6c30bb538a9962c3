// FTRL-proximal (McMahan et al., KDD 2013, algorithm 1): s = (sqrt(n + g^2) - sqrt(n)) / alpha, z += g - s w, n += g^2,
// w = 0 if |z| <= l1, else -(z - sign(z) l1) / ((beta + sqrt(n)) / alpha + l2). State: z, n.
#include <algorithm>

#include "server/optimizer/row_optimizer.h"

namespace shoal {
namespace {

class FtrlOptimizer : public RowOptimizer {
 public:
  FtrlOptimizer(const Ftrl& config, float l1, float l2)
      : rate_(config.learning_rate()), beta_(config.beta()), l1_(l1), l2_(l2) {}
  float learning_rate() const override { return rate_; }
  bool owns_penalty() const override { return true; }
  uint64_t StateSize(uint64_t dim) const override { return 2 * dim; }
  void InitState(float* state, uint64_t dim) const override { std::fill_n(state, 2 * dim, 0.0f); }
  void Step(const row_kernels::RowBatch& batch, float factor) const override {
    const float alpha = rate_ * factor;
    // The start of a warm-up has rate 0, for which the closed form is 0 / 0: the rows stay.
    if (alpha != 0) row_kernels::Ftrl(batch, alpha, beta_, l1_, l2_);
  }

 private:
  const float rate_, beta_, l1_, l2_;
};

}  // namespace

std::unique_ptr<RowOptimizer> MakeFtrl(const Ftrl& config, float l1, float l2) {
  return std::make_unique<FtrlOptimizer>(config, l1, l2);
}

}  // namespace shoal
