// Linear: x W + b. An input without columns leaves the bias alone (data without dense values).
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

constexpr size_t kNone = static_cast<size_t>(-1);

class Linear : public GraphLayer {
 public:
  Linear(size_t inputs, size_t units, size_t weight, size_t bias)
      : GraphLayer(units), inputs_(inputs), weight_(weight), bias_(bias) {}

  void Forward(const LayerIo& io) const override {
    if (bias_ == kNone) {
      std::fill_n(io.output.data, inputs_ == 0 ? io.output.size() : 0, 0.0f);
    } else {
      const float* bias = io.step->tensors[bias_];
      for (size_t r = 0; r < io.output.rows; ++r) std::copy_n(bias, width(), io.output.row(r));
    }
    if (weight_ != kNone) MatMul(io.inputs[0], Transpose::kNo, Weight(io), Transpose::kNo, bias_ != kNone, io.output);
  }

  void Backward(const LayerIo& io) const override {
    if (bias_ != kNone) cpu::SumRows(io.output_gradient, io.step->tensor_gradients[bias_]);
    if (weight_ == kNone) return;
    const Matrix weight_gradient = {io.step->tensor_gradients[weight_], inputs_, width(), Device::kCpu};
    MatMul(io.inputs[0], Transpose::kYes, io.output_gradient, Transpose::kNo, false, weight_gradient);
    const InputGradient& input = io.input_gradients[0];
    if (input.to.data == nullptr) return;
    MatMul(io.output_gradient, Transpose::kNo, Weight(io), Transpose::kYes, input.accumulate, input.to);
  }

 private:
  ConstMatrix Weight(const LayerIo& io) const { return {io.step->tensors[weight_], inputs_, width(), Device::kCpu}; }

  const size_t inputs_;
  const size_t weight_;  // tensor, or kNone
  const size_t bias_;
};

}  // namespace

LayerOr MakeLinear(const LayerBuild& build) {
  SHOAL_RETURN_IF_ERROR(CheckInputCount(build, 1));
  const LinearLayer& config = build.proto.linear();
  const size_t inputs = build.input_widths[0], units = config.units();
  if (units == 0) return LayerError(build.proto, "units: 0, but must be at least 1");
  // 2^38 floats are a tebibyte: beyond it a typing error is likelier than a plan.
  constexpr uint64_t kMaxValues = uint64_t{1} << 38;
  if (inputs > kMaxValues / units) {
    return LayerError(build.proto,
                      absl::StrCat("a weight of shape [", inputs, ", ", units, "] has more than 2^38 values"));
  }
  const std::string& name = build.proto.name();
  size_t weight = kNone, bias = kNone;
  if (inputs > 0) {
    weight = build.spec->AddTensor(name + "/weight", {inputs, units},
                                   config.zero_init() ? TensorSpec::ZERO : TensorSpec::GLOROT_UNIFORM);
  }
  if (config.bias()) bias = build.spec->AddTensor(name + "/bias", {units}, TensorSpec::ZERO);
  return std::make_unique<Linear>(inputs, units, weight, bias);
}

}  // namespace shoal
