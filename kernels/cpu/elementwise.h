// Elementwise sums and products, bias, column sums, rectifier, rounding. Vectorised for the widest registers that the
// machine has; no sum is reordered or fused with a product, so that every instruction set gives the same bits.
#ifndef SHOAL_KERNELS_CPU_ELEMENTWISE_H_
#define SHOAL_KERNELS_CPU_ELEMENTWISE_H_

#include <cstdint>

#include "kernels/device.h"

namespace shoal::cpu {

// to = from, or to += from with `accumulate`; n values.
void CopyOrAdd(const float* from, size_t n, bool accumulate, float* to);
// to[i] = a[i] * b[i], or += with `accumulate`.
void Multiply(const float* a, const float* b, size_t n, bool accumulate, float* to);
// Adds the row `bias` (to.columns values) to every row of `to`.
void AddBias(const float* bias, Matrix to);
// sums[c] += values of column c of m, in row order; from 0 without `accumulate`. m.columns values.
void SumRows(ConstMatrix m, bool accumulate, float* sums);
// y = max(x, 0); NaN stays NaN. x and y may be the same.
void Relu(const float* x, size_t n, float* y);
// The gradient through y = Relu(x), in place: dy[i] = y[i] > 0 ? dy[i] : 0. Unless `sums` is nullptr it also gets the
// column sums of the result, as SumRows makes them.
void ReluGradient(ConstMatrix y, Matrix dy, bool accumulate, float* sums);
// Rounds to the nearest bf16, ties to even; NaN stays NaN. The upper half of each float, or the whole float.
void ToBf16(const float* from, size_t n, uint16_t* to);
void RoundToBf16(const float* from, size_t n, float* to);
// Copies columns [begin, begin + part.columns) of `whole` to `part` (or adds), row by row.
void TakeColumns(ConstMatrix whole, size_t begin, bool accumulate, Matrix part);
// The other way: part becomes columns [begin, ...) of `whole`.
void PutColumns(ConstMatrix part, size_t begin, Matrix whole);

}  // namespace shoal::cpu

#endif  // SHOAL_KERNELS_CPU_ELEMENTWISE_H_
