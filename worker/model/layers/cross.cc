// Cross (DCN-v2): x0 * (x W + b) + x with a full matrix W or, with a rank, W = U V (two tensors).
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/matmul.h"
#include "worker/model/layers/graph_layer.h"

namespace shoal {
namespace {

using cpu::MatMul;
using cpu::Transpose;

// Scratch: u = x W + b and its gradient, both [batch, width]; with a rank also v = x U and its gradient, [batch, rank].
class Cross : public GraphLayer {
 public:
  Cross(size_t width, size_t rank, size_t first, size_t second, size_t bias)
      : GraphLayer(width, 2 * width + 2 * rank), rank_(rank), first_(first), second_(second), bias_(bias) {}

  void Forward(const LayerIo& io) const override {
    const ConstMatrix x0 = io.inputs[0], x = io.inputs[1];
    const Parts parts = Split(io);
    const float* bias = io.step->tensors[bias_];
    for (size_t r = 0; r < x.rows; ++r) std::copy_n(bias, width(), parts.u.row(r));
    if (rank_ == 0) {
      MatMul(x, Transpose::kNo, Tensor(io, first_, width(), width()), Transpose::kNo, true, parts.u);
    } else {
      MatMul(x, Transpose::kNo, Tensor(io, first_, width(), rank_), Transpose::kNo, false, parts.v);
      MatMul(parts.v, Transpose::kNo, Tensor(io, second_, rank_, width()), Transpose::kNo, true, parts.u);
    }
    cpu::Multiply(x0.data, parts.u.data, x.size(), false, io.output.data);
    cpu::CopyOrAdd(x.data, x.size(), true, io.output.data);
  }

  void Backward(const LayerIo& io) const override {
    const ConstMatrix x0 = io.inputs[0], x = io.inputs[1], dy = io.output_gradient;
    const Parts parts = Split(io);
    const InputGradient &dx0 = io.input_gradients[0], &dx = io.input_gradients[1];
    cpu::Multiply(x0.data, dy.data, dy.size(), false, parts.du.data);
    if (dx0.to.data != nullptr) cpu::Multiply(parts.u.data, dy.data, dy.size(), dx0.accumulate, dx0.to.data);
    cpu::SumRows(parts.du, io.again(), io.step->tensor_gradients[bias_]);
    if (rank_ > 0) {
      const ConstMatrix second = Tensor(io, second_, rank_, width());
      MatMul(parts.v, Transpose::kYes, parts.du, Transpose::kNo, io.again(), Gradient(io, second_, rank_, width()));
      MatMul(parts.du, Transpose::kNo, second, Transpose::kYes, false, parts.dv);
    }
    const ConstMatrix inner = rank_ == 0 ? parts.du : parts.dv;
    MatMul(x, Transpose::kYes, inner, Transpose::kNo, io.again(), Gradient(io, first_, width(), inner.columns));
    if (dx.to.data == nullptr) return;
    cpu::CopyOrAdd(dy.data, dy.size(), dx.accumulate, dx.to.data);
    MatMul(inner, Transpose::kNo, Tensor(io, first_, width(), inner.columns), Transpose::kYes, true, dx.to);
  }

 private:
  struct Parts {
    Matrix u, du, v, dv;
  };

  Parts Split(const LayerIo& io) const {
    const size_t rows = io.output.rows, n = rows * width();
    float* s = io.scratch;
    return {{s, rows, width(), Device::kCpu},
            {s + n, rows, width(), Device::kCpu},
            {s + 2 * n, rows, rank_, Device::kCpu},
            {s + 2 * n + rows * rank_, rows, rank_, Device::kCpu}};
  }
  static ConstMatrix Tensor(const LayerIo& io, size_t tensor, size_t rows, size_t columns) {
    return {io.step->tensors[tensor], rows, columns, Device::kCpu};
  }
  static Matrix Gradient(const LayerIo& io, size_t tensor, size_t rows, size_t columns) {
    return {io.step->tensor_gradients[tensor], rows, columns, Device::kCpu};
  }

  const size_t rank_;  // 0: full
  const size_t first_, second_, bias_;
};

}  // namespace

LayerOr MakeCross(const LayerBuild& build) {
  SHOAL_RETURN_IF_ERROR(CheckInputCount(build, 2));
  const size_t width = build.input_widths[0], rank = build.proto.cross().rank();
  if (width != build.input_widths[1] || width == 0) {
    return LayerError(build.proto, absl::StrCat("its inputs x0 ", ShapeText(width), " and x ",
                                                ShapeText(build.input_widths[1]), " must have one shape"));
  }
  if (rank >= width) {
    return LayerError(build.proto,
                      absl::StrCat("rank: ", rank, ", but must be below the width of its input ", ShapeText(width)));
  }
  const std::string& name = build.proto.name();
  const size_t first = rank == 0 ? build.spec->AddTensor(name + "/weight", {width, width}, TensorSpec::GLOROT_UNIFORM)
                                 : build.spec->AddTensor(name + "/weight_u", {width, rank}, TensorSpec::GLOROT_UNIFORM);
  const size_t second =
      rank == 0 ? first : build.spec->AddTensor(name + "/weight_v", {rank, width}, TensorSpec::GLOROT_UNIFORM);
  const size_t bias = build.spec->AddTensor(name + "/bias", {width}, TensorSpec::ZERO);
  return std::make_unique<Cross>(width, rank, first, second, bias);
}

}  // namespace shoal
