// Dot products of all pairs of fields (DLRM).
#ifndef SHOAL_KERNELS_CPU_DOT_INTERACTION_H_
#define SHOAL_KERNELS_CPU_DOT_INTERACTION_H_

#include "kernels/device.h"

namespace shoal::cpu {

// x is [batch, fields * dim]; y is [batch, fields * (fields - 1) / 2]: pairs (0,1), (0,2), ..., (1,2), ...
void DotInteraction(ConstMatrix x, size_t dim, Matrix y);
// dx_i = sum over j != i of dy_ij x_j, or += with `accumulate`.
void DotInteractionGradient(ConstMatrix x, size_t dim, ConstMatrix dy, bool accumulate, Matrix dx);

}  // namespace shoal::cpu

#endif  // SHOAL_KERNELS_CPU_DOT_INTERACTION_H_
