// Sum: elementwise, of inputs of one shape.
#include "absl/strings/str_cat.h"
#include "kernels/cpu/elementwise.h"
#include "worker/model/layers/graph_layer.h"

namespace shoal {
namespace {

class Sum : public GraphLayer {
 public:
  explicit Sum(size_t width) : GraphLayer(width) {}

  void Forward(const LayerIo& io) const override {
    for (size_t i = 0; i < io.inputs.size(); ++i) {
      cpu::CopyOrAdd(io.inputs[i].data, io.output.size(), i > 0, io.output.data);
    }
  }

  void Backward(const LayerIo& io) const override {
    for (const InputGradient& input : io.input_gradients) {
      if (input.to.data == nullptr) continue;
      cpu::CopyOrAdd(io.output_gradient.data, io.output_gradient.size(), input.accumulate, input.to.data);
    }
  }
};

}  // namespace

LayerOr MakeSum(const LayerBuild& build) {
  if (build.input_widths.empty()) return LayerError(build.proto, "needs at least 1 input, but has 0");
  for (size_t i = 1; i < build.input_widths.size(); ++i) {
    if (build.input_widths[i] == build.input_widths[0]) continue;
    return LayerError(build.proto,
                      absl::StrCat("its inputs must have one shape, but input 0 is ", ShapeText(build.input_widths[0]),
                                   " and input ", i, " is ", ShapeText(build.input_widths[i])));
  }
  return std::make_unique<Sum>(build.input_widths[0]);
}

}  // namespace shoal
