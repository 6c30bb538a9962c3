// Elementwise activation functions.
#ifndef SHOAL_KERNELS_CPU_ACTIVATION_H_
#define SHOAL_KERNELS_CPU_ACTIVATION_H_

#include <cstddef>

namespace shoal::cpu {

enum class ActivationKind { kRelu, kSigmoid, kTanh, kLinear };

// y[i] = f(x[i]); y may be x. Relu passes NaN on, so that the guard sees it.
void Activate(ActivationKind kind, const float* x, size_t n, float* y);
// dx[i] = f'(x[i]) * dy[i] (or += with `accumulate`), from the output y.
void ActivateGradient(ActivationKind kind, const float* y, const float* dy, size_t n, bool accumulate, float* dx);

}  // namespace shoal::cpu

#endif  // SHOAL_KERNELS_CPU_ACTIVATION_H_
