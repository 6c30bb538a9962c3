// Second-order factorization machine: the sum of dot products of all pairs of fields.
#ifndef SHOAL_KERNELS_CPU_FM_H_
#define SHOAL_KERNELS_CPU_FM_H_

#include "kernels/device.h"

namespace shoal::cpu {

// x is [batch, fields * dim]; y[r] = 1/2 sum_d ((sum_f x_fd)^2 - sum_f x_fd^2). `sums` ([batch, dim]) keeps sum_f x_fd.
void Fm(ConstMatrix x, size_t dim, float* sums, float* y);
// dx_fd = dy * (sums_d - x_fd), or += with `accumulate`.
void FmGradient(ConstMatrix x, size_t dim, const float* sums, const float* dy, bool accumulate, Matrix dx);

}  // namespace shoal::cpu

#endif  // SHOAL_KERNELS_CPU_FM_H_
