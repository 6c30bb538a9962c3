// Fm: second-order interactions of all pairs of fields, one number per row.
#include "kernels/cpu/fm.h"

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/model/layers/graph_layer.h"

namespace shoal {
namespace {

class Fm : public GraphLayer {
 public:
  explicit Fm(size_t dim) : GraphLayer(1, dim), dim_(dim) {}

  void Forward(const LayerIo& io) const override { cpu::Fm(io.inputs[0], dim_, io.scratch, io.output.data); }

  void Backward(const LayerIo& io) const override {
    const InputGradient& input = io.input_gradients[0];
    if (input.to.data == nullptr) return;
    cpu::FmGradient(io.inputs[0], dim_, io.scratch, io.output_gradient.data, input.accumulate, input.to);
  }

 private:
  const size_t dim_;
};

}  // namespace

LayerOr MakeFm(const LayerBuild& build) {
  SHOAL_RETURN_IF_ERROR(CheckInputCount(build, 1));
  const size_t width = build.input_widths[0], dim = build.proto.fm().dim();
  if (dim == 0 || width == 0 || width % dim != 0) {
    return LayerError(build.proto, absl::StrCat("fields of ", ShapeText(dim), " don't fit its input ", ShapeText(width),
                                                ": the width must be a multiple of dim"));
  }
  return std::make_unique<Fm>(dim);
}

}  // namespace shoal
