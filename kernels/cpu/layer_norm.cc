#include "kernels/cpu/layer_norm.h"

#include <cmath>

namespace shoal::cpu {

void LayerNorm(ConstMatrix x, const float* scale, const float* shift, float epsilon, float* statistics, Matrix y) {
  const size_t n = x.columns;
  for (size_t r = 0; r < x.rows; ++r) {
    const float* in = x.row(r);
    double sum = 0, squares = 0;
    for (size_t c = 0; c < n; ++c) sum += in[c];
    const double mean = sum / static_cast<double>(n);
    for (size_t c = 0; c < n; ++c) squares += (in[c] - mean) * (in[c] - mean);
    const float m = static_cast<float>(mean);
    const float inverse = static_cast<float>(1 / std::sqrt(squares / static_cast<double>(n) + epsilon));
    statistics[2 * r] = m;
    statistics[2 * r + 1] = inverse;
    float* out = y.row(r);
    for (size_t c = 0; c < n; ++c) out[c] = (in[c] - m) * inverse * scale[c] + shift[c];
  }
}

void LayerNormGradient(ConstMatrix x, const float* scale, const float* statistics, ConstMatrix dy, float* dscale,
                       float* dshift, bool accumulate, Matrix dx) {
  const size_t n = x.columns;
  for (size_t r = 0; r < x.rows; ++r) {
    const float* in = x.row(r);
    const float* g = dy.row(r);
    const float mean = statistics[2 * r], inverse = statistics[2 * r + 1];
    double sum_g = 0, sum_g_normal = 0;  // of the gradient of the normalised value
    for (size_t c = 0; c < n; ++c) {
      const float normal = (in[c] - mean) * inverse;
      dscale[c] += g[c] * normal;
      dshift[c] += g[c];
      sum_g += g[c] * scale[c];
      sum_g_normal += g[c] * scale[c] * normal;
    }
    if (dx.data == nullptr) continue;
    const float mean_g = static_cast<float>(sum_g / static_cast<double>(n));
    const float mean_g_normal = static_cast<float>(sum_g_normal / static_cast<double>(n));
    float* to = dx.row(r);
    for (size_t c = 0; c < n; ++c) {
      const float normal = (in[c] - mean) * inverse;
      const float value = inverse * (g[c] * scale[c] - mean_g - normal * mean_g_normal);
      to[c] = accumulate ? to[c] + value : value;
    }
  }
}

}  // namespace shoal::cpu
