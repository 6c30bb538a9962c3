#include "kernels/cpu/activation.h"

#include <cmath>

#include "kernels/cpu/elementwise.h"

namespace shoal::cpu {
namespace {

float Sigmoid(float x) {
  // exp of a negative number only: it cannot overflow.
  const float e = std::exp(-std::fabs(x));
  return x >= 0 ? 1 / (1 + e) : e / (1 + e);
}

template <typename Derivative>
void Chain(const float* y, const float* dy, size_t n, bool accumulate, float* dx, Derivative derivative) {
  if (accumulate) {
    for (size_t i = 0; i < n; ++i) dx[i] += derivative(y[i]) * dy[i];
  } else {
    for (size_t i = 0; i < n; ++i) dx[i] = derivative(y[i]) * dy[i];
  }
}

}  // namespace

void Activate(ActivationKind kind, const float* x, size_t n, float* y) {
  switch (kind) {
    case ActivationKind::kRelu:
      return Relu(x, n, y);
    case ActivationKind::kSigmoid:
      for (size_t i = 0; i < n; ++i) y[i] = Sigmoid(x[i]);
      return;
    case ActivationKind::kTanh:
      for (size_t i = 0; i < n; ++i) y[i] = std::tanh(x[i]);
      return;
    case ActivationKind::kLinear:
      for (size_t i = 0; i < n; ++i) y[i] = x[i];
      return;
  }
}

void ActivateGradient(ActivationKind kind, const float* y, const float* dy, size_t n, bool accumulate, float* dx) {
  switch (kind) {
    case ActivationKind::kRelu:
      return Chain(y, dy, n, accumulate, dx, [](float v) { return v > 0 ? 1.0f : 0.0f; });
    case ActivationKind::kSigmoid:
      return Chain(y, dy, n, accumulate, dx, [](float v) { return v * (1 - v); });
    case ActivationKind::kTanh:
      return Chain(y, dy, n, accumulate, dx, [](float v) { return 1 - v * v; });
    case ActivationKind::kLinear:
      return Chain(y, dy, n, accumulate, dx, [](float) { return 1.0f; });
  }
}

}  // namespace shoal::cpu
