// Layer norm: each row gets mean 0 and variance 1, then a scale (weight) and a shift (bias) per column.
#include "kernels/cpu/layer_norm.h"

#include <algorithm>

#include "base/status_macros.h"
#include "worker/model/layers/graph_layer.h"

namespace shoal {
namespace {

class LayerNorm : public GraphLayer {
 public:
  LayerNorm(size_t width, float epsilon, size_t weight, size_t bias)
      : GraphLayer(width, 2), epsilon_(epsilon), weight_(weight), bias_(bias) {}

  void Forward(const LayerIo& io) const override {
    cpu::LayerNorm(io.inputs[0], io.step->tensors[weight_], io.step->tensors[bias_], epsilon_, io.scratch, io.output);
  }

  void Backward(const LayerIo& io) const override {
    float* const weight = io.step->tensor_gradients[weight_];
    float* const bias = io.step->tensor_gradients[bias_];
    if (!io.again()) {
      std::fill_n(weight, width(), 0.0f);
      std::fill_n(bias, width(), 0.0f);
    }
    cpu::LayerNormGradient(io.inputs[0], io.step->tensors[weight_], io.scratch, io.output_gradient, weight, bias,
                           io.input_gradients[0].accumulate, io.input_gradients[0].to);
  }

 private:
  const float epsilon_;
  const size_t weight_, bias_;
};

}  // namespace

LayerOr MakeLayerNorm(const LayerBuild& build) {
  SHOAL_RETURN_IF_ERROR(CheckInputCount(build, 1));
  const size_t width = build.input_widths[0];
  if (width == 0) return LayerError(build.proto, "its input " + ShapeText(0) + " has no columns");
  // 1e-5, the default of the job file, for graphs that were built in code.
  const float epsilon = build.proto.layer_norm().epsilon() > 0 ? build.proto.layer_norm().epsilon() : 1e-5f;
  const std::string& name = build.proto.name();
  const size_t weight = build.spec->AddTensor(name + "/weight", {width}, TensorSpec::ONE);
  const size_t bias = build.spec->AddTensor(name + "/bias", {width}, TensorSpec::ZERO);
  return std::make_unique<LayerNorm>(width, epsilon, weight, bias);
}

}  // namespace shoal
