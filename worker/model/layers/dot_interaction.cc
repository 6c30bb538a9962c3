// Dot interaction (DLRM): dot products of all pairs of fields.
#include "kernels/cpu/dot_interaction.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/model/layers/graph_layer.h"

namespace shoal {
namespace {

class DotInteraction : public GraphLayer {
 public:
  DotInteraction(size_t fields, size_t dim) : GraphLayer(fields * (fields - 1) / 2), dim_(dim) {}

  void Forward(const LayerIo& io) const override { cpu::DotInteraction(io.inputs[0], dim_, io.output); }

  void Backward(const LayerIo& io) const override {
    const InputGradient& input = io.input_gradients[0];
    if (input.to.data == nullptr) return;
    cpu::DotInteractionGradient(io.inputs[0], dim_, io.output_gradient, input.accumulate, input.to);
  }

 private:
  const size_t dim_;
};

}  // namespace

LayerOr MakeDotInteraction(const LayerBuild& build) {
  SHOAL_RETURN_IF_ERROR(CheckInputCount(build, 1));
  const size_t width = build.input_widths[0], dim = build.proto.dot_interaction().dim();
  if (dim == 0 || width % dim != 0 || width / dim < 2) {
    return LayerError(build.proto, absl::StrCat("fields of ", ShapeText(dim), " don't fit its input ", ShapeText(width),
                                                ": the width must be dim times at least 2"));
  }
  return std::make_unique<DotInteraction>(width / dim, dim);
}

}  // namespace shoal
