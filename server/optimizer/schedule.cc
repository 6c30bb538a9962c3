#include "server/optimizer/schedule.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace shoal {
namespace {

// Share of the way to the end, in [0, 1].
double Progress(uint64_t examples, uint64_t length) {
  return std::min(1.0, static_cast<double>(examples) / static_cast<double>(length));
}

}  // namespace

absl::Status CheckSchedule(const Schedule& schedule) {
  if (schedule.has_polynomial() && schedule.polynomial().length_examples() == 0) {
    return absl::InvalidArgumentError("schedule.polynomial.length_examples: 0, must be at least 1");
  }
  if (schedule.has_cosine() && schedule.cosine().length_examples() == 0) {
    return absl::InvalidArgumentError("schedule.cosine.length_examples: 0, must be at least 1");
  }
  const auto& boundaries = schedule.step().boundaries_examples();
  for (int i = 1; i < boundaries.size(); ++i) {
    if (boundaries[i] > boundaries[i - 1]) continue;
    return absl::InvalidArgumentError(absl::StrCat("schedule.step.boundaries_examples[", i, "]: ", boundaries[i],
                                                   ", must be above the one before, ", boundaries[i - 1]));
  }
  return absl::OkStatus();
}

float ScheduleFactor(const Schedule& schedule, uint64_t examples) {
  const uint64_t warmup = schedule.warmup_examples();
  if (examples < warmup) return static_cast<float>(static_cast<double>(examples) / static_cast<double>(warmup));
  const uint64_t x = examples - warmup;
  switch (schedule.kind_case()) {
    case Schedule::kPolynomial: {
      const PolynomialSchedule& p = schedule.polynomial();
      const double left = 1.0 - Progress(x, p.length_examples());
      return static_cast<float>(p.end() + (1.0 - p.end()) * std::pow(left, static_cast<double>(p.power())));
    }
    case Schedule::kCosine: {
      const CosineSchedule& c = schedule.cosine();
      const double angle = 3.141592653589793 * Progress(x, c.length_examples());
      return static_cast<float>(c.end() + (1.0 - c.end()) * 0.5 * (1.0 + std::cos(angle)));
    }
    case Schedule::kStep: {
      const auto& boundaries = schedule.step().boundaries_examples();
      double factor = 1;
      for (uint64_t boundary : boundaries) factor *= x >= boundary ? schedule.step().factor() : 1.0;
      return static_cast<float>(factor);
    }
    case Schedule::kConstant:
    case Schedule::KIND_NOT_SET:
      return 1;
  }
  return 1;
}

}  // namespace shoal
