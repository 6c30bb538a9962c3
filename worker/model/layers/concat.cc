// Concat: the inputs side by side.
#include "kernels/cpu/elementwise.h"
#include "worker/model/layers/graph_layer.h"

namespace shoal {
namespace {

class Concat : public GraphLayer {
 public:
  explicit Concat(size_t width) : GraphLayer(width) {}

  void Forward(const LayerIo& io) const override {
    size_t begin = 0;
    for (const ConstMatrix& input : io.inputs) {
      cpu::PutColumns(input, begin, io.output);
      begin += input.columns;
    }
  }

  void Backward(const LayerIo& io) const override {
    size_t begin = 0;
    for (size_t i = 0; i < io.inputs.size(); ++i) {
      const InputGradient& input = io.input_gradients[i];
      if (input.to.data != nullptr) cpu::TakeColumns(io.output_gradient, begin, input.accumulate, input.to);
      begin += io.inputs[i].columns;
    }
  }
};

}  // namespace

LayerOr MakeConcat(const LayerBuild& build) {
  size_t width = 0;
  for (size_t input : build.input_widths) width += input;
  if (width == 0) return LayerError(build.proto, "its inputs have no columns");
  return std::make_unique<Concat>(width);
}

}  // namespace shoal
