// Slow implementations of the kernels that follow the formulas word for word, in double: what tests compare with.
#ifndef SHOAL_KERNELS_REFERENCE_REFERENCE_H_
#define SHOAL_KERNELS_REFERENCE_REFERENCE_H_

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/device.h"

namespace shoal::reference {

using Values = std::vector<double>;

// A value and the sum of magnitudes that went into it: rounding errors are in proportion to the latter.
struct Sums {
  Values value;
  Values magnitude;
  explicit Sums(size_t n) : value(n, 0), magnitude(n, 0) {}
  void Add(size_t i, double v) {
    value[i] += v;
    magnitude[i] += std::fabs(v);
  }
};

// Bound on the error of a float sum of `terms` products in any order: (terms + 2) roundings of relative size 2^-24.
inline double Tolerance(size_t terms, double magnitude) {
  return (static_cast<double>(terms) + 2) * 0x1.0p-24 * magnitude + 1e-37;
}

inline Sums MatMul(ConstMatrix a, bool transpose_a, ConstMatrix b, bool transpose_b, size_t m, size_t n, size_t k) {
  Sums c(m * n);
  for (size_t i = 0; i < m; ++i) {
    for (size_t j = 0; j < n; ++j) {
      for (size_t l = 0; l < k; ++l) {
        const double x = transpose_a ? a.row(l)[i] : a.row(i)[l];
        c.Add(i * n + j, x * (transpose_b ? b.row(j)[l] : b.row(l)[j]));
      }
    }
  }
  return c;
}

// Sum over pairs of fields i < j of their dot product, by row.
inline Sums Fm(ConstMatrix x, size_t dim) {
  Sums y(x.rows);
  for (size_t r = 0; r < x.rows; ++r) {
    for (size_t i = 0; i < x.columns; i += dim) {
      for (size_t j = i + dim; j < x.columns; j += dim) {
        for (size_t d = 0; d < dim; ++d) y.Add(r, static_cast<double>(x.row(r)[i + d]) * x.row(r)[j + d]);
      }
    }
  }
  return y;
}

inline Sums DotInteraction(ConstMatrix x, size_t dim) {
  const size_t fields = x.columns / dim;
  Sums y(x.rows * fields * (fields - 1) / 2);
  size_t at = 0;
  for (size_t r = 0; r < x.rows; ++r) {
    for (size_t i = 0; i < fields; ++i) {
      for (size_t j = i + 1; j < fields; ++j, ++at) {
        for (size_t d = 0; d < dim; ++d) y.Add(at, static_cast<double>(x.row(r)[i * dim + d]) * x.row(r)[j * dim + d]);
      }
    }
  }
  return y;
}

inline Values LayerNorm(ConstMatrix x, const float* scale, const float* shift, double epsilon) {
  Values y;
  const double n = static_cast<double>(x.columns);
  for (size_t r = 0; r < x.rows; ++r) {
    double mean = 0, variance = 0;
    for (size_t c = 0; c < x.columns; ++c) mean += x.row(r)[c] / n;
    for (size_t c = 0; c < x.columns; ++c) variance += (x.row(r)[c] - mean) * (x.row(r)[c] - mean) / n;
    for (size_t c = 0; c < x.columns; ++c) {
      y.push_back((x.row(r)[c] - mean) / std::sqrt(variance + epsilon) * scale[c] + shift[c]);
    }
  }
  return y;
}

}  // namespace shoal::reference

#endif  // SHOAL_KERNELS_REFERENCE_REFERENCE_H_
