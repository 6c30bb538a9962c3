// Matrix product.
#ifndef SHOAL_KERNELS_CPU_MATMUL_H_
#define SHOAL_KERNELS_CPU_MATMUL_H_

#include "kernels/device.h"

namespace shoal::cpu {

enum class Transpose { kNo, kYes };

// c = op(a) op(b), or c += op(a) op(b) with `accumulate`. Runs on the calling thread alone, so that lanes don't compete
// for cores and the bits do not depend on how many lanes run (it sets the thread's OpenMP team size to 1).
// REQUIRES: the shapes fit; c overlaps neither a nor b.
void MatMul(ConstMatrix a, Transpose transpose_a, ConstMatrix b, Transpose transpose_b, bool accumulate, Matrix c);

}  // namespace shoal::cpu

#endif  // SHOAL_KERNELS_CPU_MATMUL_H_
