// Dropout: zeroes values at random while training and scales the rest by 1 / (1 - rate). Which ones is a function of
// seed, pass, split, record, layer and column: the same on every machine, however the batch was cut.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/random.h"
#include "base/status_macros.h"
#include "kernels/cpu/elementwise.h"
#include "worker/model/layers/graph_layer.h"

namespace shoal {
namespace {

constexpr uint64_t kDropoutSalt = 0x44524f50;  // "DROP": apart from every other use of the seed

// Scratch: the factor of each value.
class Dropout : public GraphLayer {
 public:
  Dropout(size_t width, uint32_t index, float rate)
      : GraphLayer(width, width),
        index_(index),
        threshold_(static_cast<uint64_t>(static_cast<double>(rate) * 0x1.0p53)),
        factor_(1 / (1 - rate)) {}

  void Forward(const LayerIo& io) const override {
    if (!io.training) {
      std::copy_n(io.inputs[0].data, io.output.size(), io.output.data);
      return;
    }
    const Batch& batch = *io.step->batch;
    for (size_t r = 0; r < io.output.rows; ++r) {
      Random random({io.step->seed, kDropoutSalt, index_, batch.pass, batch.split, batch.records[io.first_row + r]});
      float* factors = io.scratch + r * width();
      for (size_t c = 0; c < width(); ++c) factors[c] = (random.Next() >> 11) < threshold_ ? 0 : factor_;
    }
    cpu::Multiply(io.inputs[0].data, io.scratch, io.output.size(), false, io.output.data);
  }

  void Backward(const LayerIo& io) const override {
    const InputGradient& input = io.input_gradients[0];
    if (input.to.data == nullptr) return;
    cpu::Multiply(io.output_gradient.data, io.scratch, io.output.size(), input.accumulate, input.to.data);
  }

 private:
  const uint32_t index_;
  const uint64_t threshold_;
  const float factor_;
};

}  // namespace

LayerOr MakeDropout(const LayerBuild& build) {
  SHOAL_RETURN_IF_ERROR(CheckInputCount(build, 1));
  const float rate = build.proto.dropout().rate();
  if (!(rate >= 0 && rate < 1)) {
    return LayerError(build.proto, absl::StrCat("rate: ", rate, ", but must be in [0, 1)"));
  }
  return std::make_unique<Dropout>(build.input_widths[0], build.index, rate);
}

}  // namespace shoal
