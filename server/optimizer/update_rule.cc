#include "server/optimizer/update_rule.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "server/optimizer/schedule.h"

namespace shoal {
namespace {

std::unique_ptr<RowOptimizer> MakeVariant(const Optimizer& config) {
  switch (config.kind_case()) {
    case Optimizer::kSgd:
      return MakeSgd(config.sgd());
    case Optimizer::kMomentum:
      return MakeMomentum(config.momentum());
    case Optimizer::kAdagrad:
      return MakeAdagrad(config.adagrad());
    case Optimizer::kRowwiseAdagrad:
      return MakeRowwiseAdagrad(config.rowwise_adagrad());
    case Optimizer::kAdam:
      return MakeAdam(config.adam());
    case Optimizer::kAmsgrad:
      return MakeAmsgrad(config.amsgrad());
    case Optimizer::kFtrl:
      return MakeFtrl(config.ftrl(), config.l1(), config.l2());
    case Optimizer::KIND_NOT_SET:
      return nullptr;
  }
  return nullptr;
}

absl::Status CheckNotNegative(const char* field, float value) {
  if (std::isfinite(value) && value >= 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("optimizer.", field, ": ", value, ", must be finite and at least 0"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<UpdateRule>> UpdateRule::Create(const Optimizer& config) {
  auto rule = std::unique_ptr<UpdateRule>(new UpdateRule(config));
  rule->variant_ = MakeVariant(config);
  if (rule->variant_ == nullptr) {
    return absl::InvalidArgumentError(
        "optimizer: none chosen, must be one of sgd, momentum, adagrad, rowwise_adagrad, "
        "adam, amsgrad, ftrl");
  }
  if (!std::isfinite(rule->variant_->learning_rate())) {
    return absl::InvalidArgumentError(
        absl::StrCat("optimizer.learning_rate: ", rule->variant_->learning_rate(), ", must be finite"));
  }
  SHOAL_RETURN_IF_ERROR(CheckNotNegative("l1", config.l1()));
  SHOAL_RETURN_IF_ERROR(CheckNotNegative("l2", config.l2()));
  SHOAL_RETURN_IF_ERROR(CheckNotNegative("decay", config.decay()));
  SHOAL_RETURN_IF_ERROR(CheckNotNegative("clip_value", config.clip_value()));
  SHOAL_RETURN_IF_ERROR(CheckNotNegative("clip_norm", config.clip_norm()));
  if (config.has_ftrl() && config.decay() != 0) {
    // FTRL recomputes weights from its state, so a decay of weights alone would be undone.
    return absl::InvalidArgumentError(
        absl::StrCat("optimizer.decay: ", config.decay(), ", must be 0 with ftrl; use l2"));
  }
  SHOAL_RETURN_IF_ERROR(CheckSchedule(config.schedule()));
  const bool penalty = !rule->variant_->owns_penalty() && (config.l1() != 0 || config.l2() != 0);
  rule->prepares_ = penalty || config.clip_value() != 0 || config.clip_norm() != 0 || config.decay() != 0;
  return rule;
}

float UpdateRule::Factor(uint64_t examples) const { return ScheduleFactor(config_.schedule(), examples); }

void UpdateRule::Prepare(float* weights, float* gradient, uint64_t dim, float factor) const {
  if (const float bound = config_.clip_value(); bound != 0) {
    for (uint64_t i = 0; i < dim; ++i) gradient[i] = std::min(bound, std::max(-bound, gradient[i]));
  }
  if (const float bound = config_.clip_norm(); bound != 0) {
    const float norm = std::sqrt(row_kernels::SumSquares(gradient, dim));
    if (norm > bound) {
      const float scale = bound / norm;
      for (uint64_t i = 0; i < dim; ++i) gradient[i] *= scale;
    }
  }
  if (!variant_->owns_penalty()) {
    if (const float l2 = config_.l2(); l2 != 0) {
      for (uint64_t i = 0; i < dim; ++i) gradient[i] += l2 * weights[i];
    }
    if (const float l1 = config_.l1(); l1 != 0) {
      for (uint64_t i = 0; i < dim; ++i) gradient[i] += weights[i] == 0 ? 0.0f : std::copysign(l1, weights[i]);
    }
  }
  if (config_.decay() != 0) {
    const float shrink = variant_->learning_rate() * factor * config_.decay();
    for (uint64_t i = 0; i < dim; ++i) weights[i] -= shrink * weights[i];
  }
}

uint64_t UpdateRule::BlockStateSize(uint64_t size, uint64_t row_size) const {
  const uint64_t step = StepSize(size, row_size);
  return size / step * variant_->StateSize(step);
}

void UpdateRule::InitBlock(float* state, uint64_t size, uint64_t row_size) const {
  const uint64_t step = StepSize(size, row_size);
  const uint64_t stride = variant_->StateSize(step);
  for (uint64_t row = 0; row < size / step; ++row) variant_->InitState(state + row * stride, step);
}

void UpdateRule::UpdateBlock(float* weights, float* state, float* gradient, uint64_t size, uint64_t row_size,
                             float factor) const {
  if (prepares_) Prepare(weights, gradient, size, factor);
  const uint64_t step = StepSize(size, row_size);
  const uint64_t stride = variant_->StateSize(step);
  for (uint64_t row = 0; row < size / step; ++row) {
    float* const at = weights + row * step;
    float* const state_at = state + row * stride;
    variant_->Step({&at, &state_at, gradient + row * step, 1, step}, factor);
  }
}

void UpdateRule::UpdateRows(float* const* rows, float* const* states, float* gradients, uint64_t count, uint64_t dim,
                            float factor) const {
  for (uint64_t row = 0; prepares_ && row < count; ++row) Prepare(rows[row], gradients + row * dim, dim, factor);
  variant_->Step({rows, states, gradients, count, dim}, factor);
}

}  // namespace shoal
