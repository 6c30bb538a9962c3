// Activation: relu, sigmoid, tanh or linear, elementwise.
#include "kernels/cpu/activation.h"

#include "base/status_macros.h"
#include "worker/model/layers/graph_layer.h"

namespace shoal {
namespace {

class Activation : public GraphLayer {
 public:
  Activation(size_t width, cpu::ActivationKind kind) : GraphLayer(width), kind_(kind) {}

  void Forward(const LayerIo& io) const override {
    cpu::Activate(kind_, io.inputs[0].data, io.output.size(), io.output.data);
  }

  void Backward(const LayerIo& io) const override {
    const InputGradient& input = io.input_gradients[0];
    if (input.to.data == nullptr) return;
    cpu::ActivateGradient(kind_, io.output.data, io.output_gradient.data, io.output.size(), input.accumulate,
                          input.to.data);
  }

 private:
  const cpu::ActivationKind kind_;
};

}  // namespace

LayerOr MakeActivation(const LayerBuild& build) {
  SHOAL_RETURN_IF_ERROR(CheckInputCount(build, 1));
  cpu::ActivationKind kind = cpu::ActivationKind::kLinear;
  switch (build.proto.activation().function()) {
    case Model::RELU:
      kind = cpu::ActivationKind::kRelu;
      break;
    case Model::SIGMOID:
      kind = cpu::ActivationKind::kSigmoid;
      break;
    case Model::TANH:
      kind = cpu::ActivationKind::kTanh;
      break;
    case Model::LINEAR:
      break;
    default:
      return LayerError(build.proto, "unknown function; one of relu, sigmoid, tanh, linear is needed");
  }
  return std::make_unique<Activation>(build.input_widths[0], kind);
}

}  // namespace shoal
