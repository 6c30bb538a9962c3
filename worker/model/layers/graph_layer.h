// The interface of a layer: what it says about itself when the graph is built, and what it computes.
#ifndef SHOAL_WORKER_MODEL_LAYERS_GRAPH_LAYER_H_
#define SHOAL_WORKER_MODEL_LAYERS_GRAPH_LAYER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/cpu/linear_products.h"
#include "kernels/device.h"
#include "proto/job.pb.h"
#include "proto/plan.pb.h"
#include "worker/model/model.h"

namespace shoal {

// Collects the tables and tensors of all layers while a graph is built. Not thread-safe.
class SpecBuilder {
 public:
  explicit SpecBuilder(const FeatureSchema& schema) : schema_(schema) {}

  // Index of the new tensor.
  size_t AddTensor(const std::string& name, std::vector<uint64_t> shape, TensorSpec::Init init);
  // Index of the table, new or shared with an earlier layer, whose dim and init must then be equal. `slots` are looked
  // up in it besides those of the other layers.
  absl::StatusOr<size_t> AddTable(const std::string& layer, const std::string& name, uint32_t dim, float init_stddev,
                                  const std::vector<uint32_t>& slots);

  const FeatureSchema& schema() const { return schema_; }
  const ModelSpec& spec() const { return spec_; }
  // By table: the slots looked up in it (schema indices, ascending).
  const std::vector<std::vector<uint32_t>>& slots_of_table() const { return slots_of_table_; }

 private:
  const FeatureSchema& schema_;
  ModelSpec spec_;
  std::vector<std::vector<uint32_t>> slots_of_table_;
  std::vector<std::string> first_layer_of_table_;
};

// What a layer's factory knows. Borrowed for the call.
struct LayerBuild {
  const Layer& proto;
  uint32_t index;                    // of the layer in the graph
  std::vector<size_t> input_widths;  // columns of each input
  SpecBuilder* spec;
  cpu::Precision precision = cpu::Precision::kF32;
};

// Where the gradient of one input goes. `to.data` is nullptr when nobody needs it.
struct InputGradient {
  Matrix to;
  bool accumulate = false;  // another consumer of the same input has written already
};

// What a layer keeps in a lane's workspace from step to step. Owned by one lane; not thread-safe.
class LayerState {
 public:
  virtual ~LayerState() = default;
};

// What one pass over some rows of a batch hands to a layer. All memory belongs to the lane's workspace or the caller of
// the step.
struct LayerIo {
  const DeviceContext* device = nullptr;
  const StepArgs* step = nullptr;
  size_t first_row = 0;  // of the batch: row r of inputs and output is row first_row + r there
  absl::Span<const uint32_t> group_of_table;
  bool training = false;
  absl::Span<const ConstMatrix> inputs;
  Matrix output;
  float* scratch = nullptr;     // rows * scratch_per_row() floats, kept from Forward to Backward
  LayerState* state = nullptr;  // of NewState
  // Backward only:
  Matrix output_gradient;                           // nobody reads it after the layer, which may overwrite it
  absl::Span<const InputGradient> input_gradients;  // one per input

  // Passes after the first of a step find the same weights, and add to the gradients of tensors.
  bool again() const { return first_row > 0; }
  const KeyGroup& GroupOfTable(size_t table) const { return step->groups[group_of_table[table]]; }
};

// One layer with its shapes. Thread-safe: it has no state but its configuration.
class GraphLayer {
 public:
  virtual ~GraphLayer() = default;
  GraphLayer(const GraphLayer&) = delete;
  GraphLayer& operator=(const GraphLayer&) = delete;

  // Columns of the output.
  size_t width() const { return width_; }
  // Floats of scratch memory per row of the batch.
  size_t scratch_per_row() const { return scratch_per_row_; }

  // What it keeps per lane; may be nullptr.
  virtual std::unique_ptr<LayerState> NewState() const { return nullptr; }
  // Asked once, when the layer's only consumer is a rectifier: true when this layer rectifies its output itself from
  // now on, so that the graph leaves the other one out.
  virtual bool FuseRelu() { return false; }

  // Writes io.output.
  virtual void Forward(const LayerIo& io) const = 0;
  // Writes the gradients of the inputs in input order (one input may be listed twice), overwrites those of its tensors
  // (io.again(): adds to them) and adds to those of its tables. Called after Forward with the same io; rows > 0.
  virtual void Backward(const LayerIo& io) const = 0;

 protected:
  explicit GraphLayer(size_t width, size_t scratch_per_row = 0) : width_(width), scratch_per_row_(scratch_per_row) {}

 private:
  const size_t width_;
  const size_t scratch_per_row_;
};

// Makes the layer that `build.proto` describes; errors name the layer, what it needs and what it got.
absl::StatusOr<std::unique_ptr<GraphLayer>> MakeLayer(const LayerBuild& build);

// One factory per kind, each in the file of its layer; MakeLayer (factory.cc) lists them.
using LayerOr = absl::StatusOr<std::unique_ptr<GraphLayer>>;
LayerOr MakeEmbedding(const LayerBuild& build);
LayerOr MakeFactorization(const LayerBuild& build);
LayerOr MakeLinear(const LayerBuild& build);
LayerOr MakeActivation(const LayerBuild& build);
LayerOr MakeFm(const LayerBuild& build);
LayerOr MakeDotInteraction(const LayerBuild& build);
LayerOr MakeCross(const LayerBuild& build);
LayerOr MakeConcat(const LayerBuild& build);
LayerOr MakeSum(const LayerBuild& build);
LayerOr MakeDropout(const LayerBuild& build);
LayerOr MakeLayerNorm(const LayerBuild& build);

// Helpers of the factories.
absl::Status LayerError(const Layer& layer, const std::string& what);
// "[batch, 12]".
std::string ShapeText(size_t width);
// Error unless the layer has exactly `count` inputs.
absl::Status CheckInputCount(const LayerBuild& build, size_t count);

}  // namespace shoal

#endif  // SHOAL_WORKER_MODEL_LAYERS_GRAPH_LAYER_H_
