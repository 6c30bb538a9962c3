#include "kernels/cpu/fm.h"

#include <algorithm>

namespace shoal::cpu {

void Fm(ConstMatrix x, size_t dim, float* sums, float* y) {
  for (size_t r = 0; r < x.rows; ++r) {
    float* sum = sums + r * dim;
    std::fill_n(sum, dim, 0.0f);
    float squares = 0;
    for (size_t begin = 0; begin < x.columns; begin += dim) {
      const float* field = x.row(r) + begin;
      float of_field = 0;
      for (size_t d = 0; d < dim; ++d) {
        sum[d] += field[d];
        of_field += field[d] * field[d];
      }
      squares += of_field;
    }
    float of_sum = 0;
    for (size_t d = 0; d < dim; ++d) of_sum += sum[d] * sum[d];
    y[r] = 0.5f * (of_sum - squares);
  }
}

void FmGradient(ConstMatrix x, size_t dim, const float* sums, const float* dy, bool accumulate, Matrix dx) {
  for (size_t r = 0; r < x.rows; ++r) {
    const float* sum = sums + r * dim;
    const float g = dy[r];
    for (size_t begin = 0; begin < x.columns; begin += dim) {
      const float* field = x.row(r) + begin;
      float* to = dx.row(r) + begin;
      if (accumulate) {
        for (size_t d = 0; d < dim; ++d) to[d] += g * (sum[d] - field[d]);
      } else {
        for (size_t d = 0; d < dim; ++d) to[d] = g * (sum[d] - field[d]);
      }
    }
  }
}

}  // namespace shoal::cpu
