// Layer normalisation over each row.
#ifndef SHOAL_KERNELS_CPU_LAYER_NORM_H_
#define SHOAL_KERNELS_CPU_LAYER_NORM_H_

#include "kernels/device.h"

namespace shoal::cpu {

// y = (x - mean) / sqrt(variance + epsilon) * scale + shift. `statistics` keeps (mean, 1 / deviation) of each row.
void LayerNorm(ConstMatrix x, const float* scale, const float* shift, float epsilon, float* statistics, Matrix y);
// Adds sums over the rows to dscale and dshift, in row order; dx is overwritten, or added to with `accumulate`.
// `dx.data` may be nullptr when nobody needs it.
void LayerNormGradient(ConstMatrix x, const float* scale, const float* statistics, ConstMatrix dy, float* dscale,
                       float* dshift, bool accumulate, Matrix dx);

}  // namespace shoal::cpu

#endif  // SHOAL_KERNELS_CPU_LAYER_NORM_H_
