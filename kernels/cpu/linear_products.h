// The three products of a linear layer: x W, x^T dy and dy W^T.
#ifndef SHOAL_KERNELS_CPU_LINEAR_PRODUCTS_H_
#define SHOAL_KERNELS_CPU_LINEAR_PRODUCTS_H_

#include <cstddef>
#include <memory>

#include "kernels/device.h"

namespace shoal::cpu {

// What the factors of a product are rounded to. Sums are always f32.
enum class Precision { kF32, kBf16 };

// Products with one weight matrix [inputs, units]: keeps oneDNN's kernels, and the weight in their layout, from call to
// call. Runs on the calling thread alone, so that lanes don't compete for cores. The bits are a function of the
// arguments, the precision and the instruction set: never of earlier calls. A product with fewer than kNarrow
// rows, inputs or units, or with a weight above kLargest, is done in f32 whatever the precision. Owned by one lane; not
// thread-safe.
class LinearProducts {
 public:
  // Below a vector register's width the kernels for wide matrices mostly multiply padding.
  static constexpr size_t kNarrow = 16;
  // Values of a weight of which a lane keeps no second copy: 64 MiB of floats.
  static constexpr size_t kLargest = size_t{1} << 24;

  LinearProducts(size_t inputs, size_t units, Precision precision);
  ~LinearProducts();

  // The weight of what follows; its values don't change until the next call.
  void UseWeight(const float* w);
  // y = x w + bias (nullptr: none); with `relu` results below 0 become 0. Keeps x until Backward when the precision
  // needs it.
  void Forward(ConstMatrix x, const float* bias, bool relu, Matrix y);
  // After Forward with the same x: dw = x^T dy, or += with `accumulate_dw`; dx (data may be nullptr) = dy w^T, or +=
  // with `accumulate`.
  void Backward(ConstMatrix x, ConstMatrix dy, bool accumulate_dw, float* dw, bool accumulate, Matrix dx);

 private:
  class Impl;
  bool Wide(size_t rows) const { return impl_ != nullptr && rows >= kNarrow; }

  const size_t inputs_, units_;
  const float* weight_ = nullptr;
  const std::unique_ptr<Impl> impl_;  // null: narrow or too large
};

// Whether oneDNN multiplies bf16 on this machine itself; otherwise factors are rounded and multiplied as f32.
bool HasBf16Kernels();

}  // namespace shoal::cpu

#endif  // SHOAL_KERNELS_CPU_LINEAR_PRODUCTS_H_
