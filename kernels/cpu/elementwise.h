// Elementwise sums and products, bias, column sums.
#ifndef SHOAL_KERNELS_CPU_ELEMENTWISE_H_
#define SHOAL_KERNELS_CPU_ELEMENTWISE_H_

#include "kernels/device.h"

namespace shoal::cpu {

// to = from, or to += from with `accumulate`; n values.
void CopyOrAdd(const float* from, size_t n, bool accumulate, float* to);
// to[i] = a[i] * b[i], or += with `accumulate`.
void Multiply(const float* a, const float* b, size_t n, bool accumulate, float* to);
// Adds the row `bias` (to.columns values) to every row of `to`.
void AddBias(const float* bias, Matrix to);
// sums[c] = sum over rows of m, in row order; overwritten. m.columns values.
void SumRows(ConstMatrix m, float* sums);
// Copies columns [begin, begin + part.columns) of `whole` to `part` (or adds), row by row.
void TakeColumns(ConstMatrix whole, size_t begin, bool accumulate, Matrix part);
// The other way: part becomes columns [begin, ...) of `whole`.
void PutColumns(ConstMatrix part, size_t begin, Matrix whole);

}  // namespace shoal::cpu

#endif  // SHOAL_KERNELS_CPU_ELEMENTWISE_H_
