// Linear: x W + b. An input without columns leaves the bias alone (data without dense values).
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/linear_products.h"
#include "worker/model/layers/graph_layer.h"

namespace shoal {
namespace {

constexpr size_t kNone = static_cast<size_t>(-1);

// The weight as oneDNN's kernels want it.
struct LinearState : LayerState {
  LinearState(size_t inputs, size_t units, cpu::Precision precision) : products(inputs, units, precision) {}
  cpu::LinearProducts products;
};

class Linear : public GraphLayer {
 public:
  Linear(size_t inputs, size_t units, size_t weight, size_t bias, cpu::Precision precision)
      : GraphLayer(units), inputs_(inputs), weight_(weight), bias_(bias), precision_(precision) {}

  std::unique_ptr<LayerState> NewState() const override {
    return weight_ == kNone ? nullptr : std::make_unique<LinearState>(inputs_, width(), precision_);
  }

  bool FuseRelu() override {
    relu_ = weight_ != kNone;
    return relu_;
  }

  void Forward(const LayerIo& io) const override {
    const float* const bias = bias_ == kNone ? nullptr : io.step->tensors[bias_];
    if (weight_ != kNone) {
      if (!io.again()) Products(io).UseWeight(io.step->tensors[weight_]);
      Products(io).Forward(io.inputs[0], bias, relu_, io.output);
    } else if (bias != nullptr) {
      for (size_t r = 0; r < io.output.rows; ++r) std::copy_n(bias, width(), io.output.row(r));
    } else {
      std::fill_n(io.output.data, io.output.size(), 0.0f);
    }
  }

  void Backward(const LayerIo& io) const override {
    float* const bias_gradient = bias_ == kNone ? nullptr : io.step->tensor_gradients[bias_];
    if (relu_) {
      cpu::ReluGradient(io.output, io.output_gradient, io.again(), bias_gradient);
    } else if (bias_gradient != nullptr) {
      cpu::SumRows(io.output_gradient, io.again(), bias_gradient);
    }
    if (weight_ == kNone) return;
    const InputGradient& input = io.input_gradients[0];
    Products(io).Backward(io.inputs[0], io.output_gradient, io.again(), io.step->tensor_gradients[weight_],
                          input.accumulate, input.to);
  }

 private:
  static cpu::LinearProducts& Products(const LayerIo& io) { return static_cast<LinearState*>(io.state)->products; }

  const size_t inputs_;
  const size_t weight_;  // tensor, or kNone
  const size_t bias_;
  const cpu::Precision precision_;
  bool relu_ = false;
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
  return std::make_unique<Linear>(inputs, units, weight, bias, build.precision);
}

}  // namespace shoal
