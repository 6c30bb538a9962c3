#include "server/store/initial_values.h"

#include <algorithm>
#include <cmath>

#include "base/hash.h"
#include "base/random.h"

namespace shoal {

void FillInitialRow(uint64_t seed, uint64_t table_hash, uint64_t key, float stddev, uint64_t dim, float* out) {
  if (stddev == 0) {
    std::fill_n(out, dim, 0.0f);
    return;
  }
  // Box and Muller give two normals for two uniforms: columns 2k and 2k + 1.
  Random random({seed, table_hash, key});
  for (uint64_t column = 0; column < dim; column += 2) {
    const double radius = stddev * std::sqrt(-2.0 * std::log(1.0 - random.Uniform()));
    const double angle = 6.283185307179586 * random.Uniform();
    out[column] = static_cast<float>(radius * std::cos(angle));
    if (column + 1 < dim) out[column + 1] = static_cast<float>(radius * std::sin(angle));
  }
}

void FillInitialBlock(uint64_t seed, const TensorSpec& tensor, uint64_t offset, uint64_t size, float* out) {
  if (tensor.init() != TensorSpec::GLOROT_UNIFORM) {
    std::fill_n(out, size, tensor.init() == TensorSpec::ONE ? 1.0f : 0.0f);
    return;
  }
  // Glorot, Bengio, AISTATS 2010: uniform in +-sqrt(6 / (fan_in + fan_out)).
  const double fan_in = tensor.shape_size() > 0 ? static_cast<double>(tensor.shape(0)) : 1.0;
  const double fan_out = tensor.shape_size() > 1 ? static_cast<double>(tensor.shape(1)) : 1.0;
  const double limit = std::sqrt(6.0 / (fan_in + fan_out));
  const uint64_t name = HashBytes(tensor.name());
  for (uint64_t i = 0; i < size; ++i) {
    out[i] = static_cast<float>(limit * (2.0 * Random({seed, name, offset + i}).Uniform() - 1.0));
  }
}

}  // namespace shoal
