// The layer graph: checks and wires the layers once, then runs them forward and, in reverse, backward.
#include <algorithm>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "base/check.h"
#include "base/status_macros.h"
#include "worker/model/counting.h"
#include "worker/model/layers/graph_layer.h"
#include "worker/model/loss.h"
#include "worker/model/model.h"
#include "worker/model/presets.h"
#include "worker/model/workspace.h"

namespace shoal {
namespace {

constexpr int kDense = -1;  // input that is the batch's dense values
constexpr char kDenseName[] = "dense";

struct Node {
  std::unique_ptr<GraphLayer> layer;
  std::vector<int> inputs;       // kDense or the index of an earlier node
  std::vector<bool> accumulate;  // by input: a later node has written its gradient before
};

// How many rows go through the layers at once: as many as fit kNear with all that layers write, in training. A power of
// two; a function of the model alone, as the order of sums and so their bits depend on it.
size_t RowsAtOnce(const std::vector<Node>& nodes) {
  constexpr size_t kNear = size_t{1} << 20;  // floats
  constexpr size_t kFewest = 512;            // fewer would make products slower than caches make them faster
  size_t floats = 1;
  for (const Node& node : nodes) floats += 2 * node.layer->width() + node.layer->scratch_per_row();
  size_t rows = kFewest;
  while (2 * rows * floats <= kNear) rows *= 2;
  return rows;
}

// Thread-safe: nothing changes after construction.
class LayerGraph : public ModelGraph {
 public:
  LayerGraph(std::vector<Node> nodes, const SpecBuilder& builder, Model::Loss loss, uint32_t outputs)
      : nodes_(std::move(nodes)),
        spec_(builder.spec()),
        slots_(builder.schema().slots_size()),
        dense_(builder.schema().dense_size()),
        loss_(loss),
        outputs_(outputs) {
    for (const std::vector<uint32_t>& slots : builder.slots_of_table()) {
      const auto it = std::find(groups_.begin(), groups_.end(), slots);
      group_of_table_.push_back(static_cast<uint32_t>(it - groups_.begin()));
      if (it == groups_.end()) groups_.push_back(slots);
    }
    rows_at_once_ = RowsAtOnce(nodes_);
    for (const TensorSpec& tensor : spec_.tensors()) {
      size_t size = 1;
      for (uint64_t extent : tensor.shape()) size *= extent;
      tensor_sizes_.push_back(size);
    }
  }

  const ModelSpec& spec() const override { return spec_; }
  const std::vector<std::vector<uint32_t>>& groups() const override { return groups_; }
  const std::vector<uint32_t>& group_of_table() const override { return group_of_table_; }
  Model::Loss loss() const override { return loss_; }
  uint32_t outputs() const override { return outputs_; }

  std::unique_ptr<ModelWorkspace> NewWorkspace() const override {
    auto workspace = std::make_unique<GraphWorkspace>(nodes_.size());
    for (size_t n = 0; n < nodes_.size(); ++n) {
      workspace->layers[n].inputs.resize(nodes_[n].inputs.size());
      workspace->layers[n].input_gradients.resize(nodes_[n].inputs.size());
      workspace->layers[n].state = nodes_[n].layer->NewState();
    }
    return workspace;
  }

  absl::StatusOr<StepResult> Train(const StepArgs& args, ModelWorkspace* workspace) const override {
    GraphWorkspace* memory = static_cast<GraphWorkspace*>(workspace);
    SHOAL_CHECK(args.row_gradients.size() == group_of_table_.size());
    SHOAL_CHECK(args.tensor_gradients.size() == tensor_sizes_.size());
    for (size_t t = 0; t < group_of_table_.size(); ++t) {
      std::fill_n(args.row_gradients[t], args.groups[group_of_table_[t]].keys.size() * spec_.tables(t).dim(), 0.0f);
    }
    if (args.batch->rows == 0) {
      for (size_t t = 0; t < tensor_sizes_.size(); ++t) std::fill_n(args.tensor_gradients[t], tensor_sizes_[t], 0.0f);
    }
    return Run(args, true, memory);
  }

  absl::StatusOr<StepResult> Evaluate(const StepArgs& args, ModelWorkspace* workspace) const override {
    return Run(args, false, static_cast<GraphWorkspace*>(workspace));
  }

 private:
  absl::Status CheckArgs(const StepArgs& args) const {
    const Batch& batch = *args.batch;
    if (batch.dense_dim != dense_ && batch.rows > 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("batch has ", batch.dense_dim, " dense values per record, the model has ", dense_));
    }
    if (batch.slots.size() != slots_) {
      return absl::InvalidArgumentError(
          absl::StrCat("batch has ", batch.slots.size(), " slots, the model has ", slots_));
    }
    SHOAL_CHECK(args.groups.size() == groups_.size() && args.rows.size() == group_of_table_.size());
    SHOAL_CHECK(args.tensors.size() == tensor_sizes_.size());
    for (size_t g = 0; g < groups_.size(); ++g) {
      for (uint32_t slot : groups_[g]) {
        SHOAL_CHECK(args.groups[g].inverse[slot].size() == batch.slots[slot].keys.size());
      }
    }
    return absl::OkStatus();
  }

  // Points every layer's io at its memory for rows [first, first + rows) of the batch.
  void Prepare(const StepArgs& args, size_t first, size_t rows, bool training, GraphWorkspace* memory) const {
    for (size_t n = 0; n < nodes_.size(); ++n) {
      const Node& node = nodes_[n];
      GraphWorkspace::PerLayer& own = memory->layers[n];
      const size_t width = node.layer->width();
      LayerIo& io = own.io;
      io.device = &memory->device;
      io.step = &args;
      io.first_row = first;
      io.group_of_table = group_of_table_;
      io.training = training;
      io.output = {own.output.Reserve(rows * width), rows, width, Device::kCpu};
      io.state = own.state.get();
      io.scratch = own.scratch.Reserve(rows * node.layer->scratch_per_row());
      if (training) io.output_gradient = {own.gradient.Reserve(rows * width), rows, width, Device::kCpu};
      for (size_t i = 0; i < node.inputs.size(); ++i) PrepareInput(io, node, i, memory, &own);
      io.inputs = own.inputs;
      io.input_gradients = own.input_gradients;
    }
  }

  void PrepareInput(const LayerIo& io, const Node& node, size_t i, GraphWorkspace* memory,
                    GraphWorkspace::PerLayer* own) const {
    const size_t rows = io.output.rows;
    if (node.inputs[i] == kDense) {
      own->inputs[i] = {io.step->batch->dense.data() + io.first_row * dense_, rows, dense_, Device::kCpu};
      own->input_gradients[i] = {};
      return;
    }
    GraphWorkspace::PerLayer& from = memory->layers[node.inputs[i]];
    own->inputs[i] = from.io.output;
    if (!io.training) return;
    own->input_gradients[i].to = {from.gradient.Reserve(from.io.output.size()), rows, from.io.output.columns,
                                  Device::kCpu};
    own->input_gradients[i].accumulate = node.accumulate[i];
  }

  // Some rows after others, forward and backward, so that what layers hand to one another stays in near caches and
  // takes no more memory however large the batch is.
  absl::StatusOr<StepResult> Run(const StepArgs& args, bool training, GraphWorkspace* memory) const {
    SHOAL_RETURN_IF_ERROR(CheckArgs(args));
    const size_t rows = args.batch->rows;
    StepResult result;
    float* const predictions = memory->predictions.Reserve(rows * outputs_);
    for (size_t first = 0, some; first < rows; first += some) {
      some = rows - first;
      // No part is so small that products would do it another way.
      if (some >= rows_at_once_ + cpu::LinearProducts::kNarrow) some = rows_at_once_;
      Prepare(args, first, some, training, memory);
      for (size_t n = 0; n < nodes_.size(); ++n) nodes_[n].layer->Forward(memory->layers[n].io);
      const LayerIo& last = memory->layers.back().io;
      const Matrix gradient = training ? last.output_gradient : Matrix();
      SHOAL_ASSIGN_OR_RETURN(const double loss,
                             ComputeLoss(loss_, *args.batch, first, last.output,
                                         {predictions + first * outputs_, some, outputs_, Device::kCpu}, gradient));
      result.loss_sum += loss;
      for (size_t n = nodes_.size(); training && n-- > 0;) nodes_[n].layer->Backward(memory->layers[n].io);
    }
    result.predictions = absl::MakeConstSpan(predictions, rows * outputs_);
    return result;
  }

  const std::vector<Node> nodes_;
  const ModelSpec spec_;
  const size_t slots_, dense_;
  const Model::Loss loss_;
  const uint32_t outputs_;
  std::vector<std::vector<uint32_t>> groups_;
  std::vector<uint32_t> group_of_table_;
  std::vector<size_t> tensor_sizes_;
  size_t rows_at_once_;
};

// Turns a list of layers into nodes. Used once per graph.
class GraphBuilder {
 public:
  GraphBuilder(const FeatureSchema& schema, cpu::Precision precision) : spec_(schema), precision_(precision) {}

  absl::Status Add(const Layer& proto) {
    if (proto.name().empty() || proto.name() == kDenseName) {
      return absl::InvalidArgumentError(absl::StrCat("layer ", nodes_.size(), ": name: \"", proto.name(),
                                                     "\", but must be neither empty nor \"dense\""));
    }
    Node node;
    SHOAL_RETURN_IF_ERROR(FindInputs(proto, &node.inputs));
    LayerBuild build{proto, static_cast<uint32_t>(nodes_.size()), {}, &spec_, precision_};
    for (int input : node.inputs) build.input_widths.push_back(WidthOf(input));
    SHOAL_ASSIGN_OR_RETURN(node.layer, MakeLayer(build));
    if (!by_name_.emplace(proto.name(), static_cast<int>(nodes_.size())).second) {
      return LayerError(proto, "there is an earlier layer of this name");
    }
    for (int input : node.inputs) {
      if (input != kDense) used_[input] = true;
    }
    node.accumulate.resize(node.inputs.size());
    nodes_.push_back(std::move(node));
    used_.push_back(false);
    return absl::OkStatus();
  }

  // All layers are there: the last must have the outputs, the others must lead to it.
  absl::Status Finish(const std::vector<Layer>& layers, uint32_t outputs) {
    if (nodes_.back().layer->width() != outputs) {
      return LayerError(layers.back(),
                        absl::StrCat("the last layer's output is ", ShapeText(nodes_.back().layer->width()),
                                     ", but the loss needs ", ShapeText(outputs), " (model.outputs)"));
    }
    for (size_t n = 0; n + 1 < nodes_.size(); ++n) {
      if (!used_[n]) return LayerError(layers[n], "no later layer uses its output");
    }
    FuseRectifiers(layers);
    // Backward visits nodes from last to first: the first to reach an input overwrites its gradient, others add.
    std::vector<bool> written(nodes_.size(), false);
    for (size_t n = nodes_.size(); n-- > 0;) {
      for (size_t i = 0; i < nodes_[n].inputs.size(); ++i) {
        const int input = nodes_[n].inputs[i];
        if (input == kDense) continue;
        nodes_[n].accumulate[i] = written[input];
        written[input] = true;
      }
    }
    return absl::OkStatus();
  }

  std::vector<Node> TakeNodes() { return std::move(nodes_); }
  const SpecBuilder& spec() const { return spec_; }

 private:
  absl::Status FindInputs(const Layer& proto, std::vector<int>* inputs) const {
    for (const std::string& name : proto.inputs()) {
      const auto it = by_name_.find(name);
      if (it == by_name_.end() && name != kDenseName) {
        return LayerError(proto, absl::StrCat("its input ", name, " is no earlier layer"));
      }
      inputs->push_back(it == by_name_.end() ? kDense : it->second);
    }
    if (inputs->empty() && !proto.has_embedding() && !proto.has_factorization()) {
      inputs->push_back(nodes_.empty() ? kDense : static_cast<int>(nodes_.size()) - 1);
    }
    return absl::OkStatus();
  }

  // A layer whose output only a rectifier reads takes that over where it can; the rectifier leaves the graph.
  void FuseRectifiers(const std::vector<Layer>& layers) {
    std::vector<int> readers(nodes_.size(), 0);
    for (const Node& node : nodes_) {
      for (int input : node.inputs) {
        if (input != kDense) ++readers[input];
      }
    }
    std::vector<int> moved(nodes_.size());  // where a node went, or the one that took it over
    std::vector<Node> kept;
    for (size_t n = 0; n < nodes_.size(); ++n) {
      Node& node = nodes_[n];
      const int before = node.inputs.empty() ? kDense : node.inputs[0];
      const bool rectifier = layers[n].has_activation() && layers[n].activation().function() == Model::RELU;
      for (int& input : node.inputs) input = input == kDense ? kDense : moved[input];
      if (rectifier && before != kDense && readers[before] == 1 && kept[moved[before]].layer->FuseRelu()) {
        moved[n] = moved[before];
        continue;
      }
      moved[n] = static_cast<int>(kept.size());
      kept.push_back(std::move(node));
    }
    nodes_ = std::move(kept);
  }

  size_t WidthOf(int input) const {
    return input == kDense ? spec_.schema().dense_size() : nodes_[input].layer->width();
  }

  SpecBuilder spec_;
  const cpu::Precision precision_;
  std::vector<Node> nodes_;
  std::vector<bool> used_;
  absl::flat_hash_map<std::string, int> by_name_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ModelGraph>> ModelGraph::Create(const Job& job, const FeatureSchema& schema) {
  if (job.model().preset() == Model::COUNTING && job.model().layers_size() == 0) return MakeCountingModel(job, schema);
  SHOAL_ASSIGN_OR_RETURN(const Model::Loss loss, ResolveLoss(job, schema));
  SHOAL_ASSIGN_OR_RETURN(const uint32_t outputs, ResolveOutputs(job, schema));
  SHOAL_ASSIGN_OR_RETURN(const std::vector<Layer> layers, ExpandPreset(job, schema));
  GraphBuilder builder(schema, job.precision() == BF16 ? cpu::Precision::kBf16 : cpu::Precision::kF32);
  for (const Layer& layer : layers) SHOAL_RETURN_IF_ERROR(builder.Add(layer));
  SHOAL_RETURN_IF_ERROR(builder.Finish(layers, outputs));
  std::vector<Node> nodes = builder.TakeNodes();
  return std::make_unique<LayerGraph>(std::move(nodes), builder.spec(), loss, outputs);
}

}  // namespace shoal
