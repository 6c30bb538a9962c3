#include "kernels/cpu/dot_interaction.h"

#include <algorithm>

namespace shoal::cpu {
namespace {

// Four partial sums, so that the compiler may use a vector register without reordering any sum.
float Dot(const float* a, const float* b, size_t n) {
  float s0 = 0, s1 = 0, s2 = 0, s3 = 0;
  size_t i = 0;
  for (; i + 4 <= n; i += 4) {
    s0 += a[i] * b[i];
    s1 += a[i + 1] * b[i + 1];
    s2 += a[i + 2] * b[i + 2];
    s3 += a[i + 3] * b[i + 3];
  }
  float sum = (s0 + s1) + (s2 + s3);
  for (; i < n; ++i) sum += a[i] * b[i];
  return sum;
}

}  // namespace

void DotInteraction(ConstMatrix x, size_t dim, Matrix y) {
  for (size_t r = 0; r < x.rows; ++r) {
    const float* row = x.row(r);
    float* out = y.row(r);
    for (size_t i = 0; i < x.columns; i += dim) {
      for (size_t j = i + dim; j < x.columns; j += dim) *out++ = Dot(row + i, row + j, dim);
    }
  }
}

void DotInteractionGradient(ConstMatrix x, size_t dim, ConstMatrix dy, bool accumulate, Matrix dx) {
  for (size_t r = 0; r < x.rows; ++r) {
    const float* row = x.row(r);
    const float* g = dy.row(r);
    float* to = dx.row(r);
    if (!accumulate) std::fill_n(to, x.columns, 0.0f);
    for (size_t i = 0; i < x.columns; i += dim) {
      for (size_t j = i + dim; j < x.columns; j += dim, ++g) {
        for (size_t d = 0; d < dim; ++d) to[i + d] += *g * row[j + d];
        for (size_t d = 0; d < dim; ++d) to[j + d] += *g * row[i + d];
      }
    }
  }
}

}  // namespace shoal::cpu
