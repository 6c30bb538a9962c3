#include "kernels/cpu/elementwise.h"

#include <algorithm>

namespace shoal::cpu {

void CopyOrAdd(const float* from, size_t n, bool accumulate, float* to) {
  if (!accumulate) {
    std::copy_n(from, n, to);
    return;
  }
  for (size_t i = 0; i < n; ++i) to[i] += from[i];
}

void Multiply(const float* a, const float* b, size_t n, bool accumulate, float* to) {
  if (accumulate) {
    for (size_t i = 0; i < n; ++i) to[i] += a[i] * b[i];
  } else {
    for (size_t i = 0; i < n; ++i) to[i] = a[i] * b[i];
  }
}

void AddBias(const float* bias, Matrix to) {
  for (size_t r = 0; r < to.rows; ++r) {
    float* row = to.row(r);
    for (size_t c = 0; c < to.columns; ++c) row[c] += bias[c];
  }
}

void SumRows(ConstMatrix m, float* sums) {
  std::fill_n(sums, m.columns, 0.0f);
  for (size_t r = 0; r < m.rows; ++r) {
    const float* row = m.row(r);
    for (size_t c = 0; c < m.columns; ++c) sums[c] += row[c];
  }
}

void TakeColumns(ConstMatrix whole, size_t begin, bool accumulate, Matrix part) {
  for (size_t r = 0; r < part.rows; ++r) CopyOrAdd(whole.row(r) + begin, part.columns, accumulate, part.row(r));
}

void PutColumns(ConstMatrix part, size_t begin, Matrix whole) {
  for (size_t r = 0; r < part.rows; ++r) std::copy_n(part.row(r), part.columns, whole.row(r) + begin);
}

}  // namespace shoal::cpu
