#include "worker/model/presets.h"

#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace shoal {
namespace {

// Appends layers; every Add returns the name of the new layer, ready to be an input.
class Network {
 public:
  Network(const Model& model, const FeatureSchema& schema, uint32_t outputs)
      : model_(model),
        outputs_(outputs),
        slots_(schema.slots_size()),
        dense_(schema.dense_size()),
        dim_(model.embedding_dim() == 0 ? 8 : model.embedding_dim()) {}

  uint32_t outputs() const { return outputs_; }
  int slots() const { return slots_; }
  bool has_slots() const { return slots_ > 0; }
  bool has_dense() const { return dense_ > 0; }
  uint32_t dim() const { return dim_; }
  const Model& model() const { return model_; }
  std::vector<Layer> Take() { return std::move(layers_); }

  Layer* Add(const std::string& name, const std::vector<std::string>& inputs) {
    layers_.emplace_back();
    layers_.back().set_name(name);
    for (const std::string& input : inputs) layers_.back().add_inputs(input);
    return &layers_.back();
  }

  std::string Embedding(const std::string& name, uint32_t dim, float init, bool sum_slots) {
    EmbeddingLayer* layer = Add(name, {})->mutable_embedding();
    layer->set_dim(dim);
    layer->set_init(init);
    layer->set_sum_slots(sum_slots);
    return name;
  }

  // The keys of the one slot are the fields (libsvm).
  void Factorization(const std::string& name, const std::string& table) {
    FactorizationLayer* layer = Add(name, {})->mutable_factorization();
    layer->set_dim(dim_);
    layer->set_init(model_.embedding_init());
    layer->set_table(table);
  }

  std::string Linear(const std::string& name, const std::string& input, uint32_t units, bool bias, bool zero_init) {
    LinearLayer* layer = Add(name, {input})->mutable_linear();
    layer->set_units(units);
    layer->set_bias(bias);
    layer->set_zero_init(zero_init);
    return name;
  }

  std::string Concat(const std::string& name, const std::vector<std::string>& inputs) {
    if (inputs.size() == 1) return inputs[0];
    Add(name, inputs)->mutable_concat();
    return name;
  }

  std::string Sum(const std::string& name, const std::vector<std::string>& inputs) {
    if (inputs.size() == 1) return inputs[0];
    Add(name, inputs)->mutable_sum();
    return name;
  }

  std::string Activate(const std::string& name, std::string input) {
    if (model_.layer_norm()) {
      Add(name + "_norm", {input})->mutable_layer_norm()->set_epsilon(1e-5f);
      input = name + "_norm";
    }
    Add(name + "_act", {input})->mutable_activation()->set_function(model_.activation());
    input = name + "_act";
    if (model_.dropout() > 0) {
      Add(name + "_drop", {input})->mutable_dropout()->set_rate(model_.dropout());
      input = name + "_drop";
    }
    return input;
  }

  // Hidden layers from number `first` on; the last one's output.
  std::string Hidden(std::string input, int first) {
    for (int i = first; i < model_.hidden_size(); ++i) {
      const std::string name = absl::StrCat("hidden_", i);
      input = Activate(name, Linear(name, input, model_.hidden(i), true, false));
    }
    return input;
  }

  // The parts of a logistic regression, to be summed: a weight per key, and the dense values with the bias.
  std::vector<std::string> LinearParts() {
    std::vector<std::string> parts;
    if (has_slots()) parts.push_back(Embedding("linear", outputs_, 0, true));
    parts.push_back(Linear("linear_dense", "dense", outputs_, true, true));
    return parts;
  }

  // Embeddings (a layer that is there already) and dense values side by side.
  std::string DeepInput(const std::string& embedding) {
    std::vector<std::string> inputs;
    if (!embedding.empty()) inputs.push_back(embedding);
    if (has_dense()) inputs.push_back("dense");
    return Concat("features", inputs);
  }

  std::string Fields() { return has_slots() ? Embedding("embedding", dim_, model_.embedding_init(), false) : ""; }

 private:
  const Model& model_;
  const uint32_t outputs_;
  const int slots_, dense_;
  const uint32_t dim_;
  std::vector<Layer> layers_;
};

void Lr(Network* n) { n->Sum("output", n->LinearParts()); }

void Fm(Network* n) {
  std::vector<std::string> parts = n->LinearParts();
  if (n->slots() == 1) {
    n->Factorization("fm", "embedding");
  } else {
    n->Add("fm", {n->Fields()})->mutable_fm()->set_dim(n->dim());
  }
  parts.push_back("fm");
  n->Sum("output", parts);
}

// The bias of the linear part serves the whole sum.
void WideDeep(Network* n) {
  std::vector<std::string> parts = n->LinearParts();
  const std::string deep = n->Hidden(n->DeepInput(n->Fields()), 0);
  parts.push_back(n->Linear("deep", deep, n->outputs(), false, false));
  n->Sum("output", parts);
}

void DeepFm(Network* n) {
  std::vector<std::string> parts = n->LinearParts();
  const std::string fields = n->Fields();
  n->Add("fm", {fields})->mutable_fm()->set_dim(n->dim());
  parts.push_back("fm");
  const std::string deep = n->Hidden(n->DeepInput(fields), 0);
  parts.push_back(n->Linear("deep", deep, n->outputs(), false, false));
  n->Sum("output", parts);
}

void Dcn(Network* n) {
  const std::string x0 = n->DeepInput(n->Fields());
  std::string x = x0;
  const uint32_t layers = n->model().cross_layers() == 0 ? 2 : n->model().cross_layers();
  for (uint32_t i = 0; i < layers; ++i) {
    const std::string name = absl::StrCat("cross_", i);
    n->Add(name, {x0, x})->mutable_cross()->set_rank(n->model().cross_rank());
    x = name;
  }
  std::vector<std::string> ends = {x};
  if (n->model().hidden_size() > 0) ends.push_back(n->Hidden(x0, 0));
  n->Linear("output", n->Concat("ends", ends), n->outputs(), true, false);
}

// Without dense values there is no bottom, and the embeddings themselves go beside their dot products.
void Dlrm(Network* n) {
  const std::string fields = n->Fields();
  std::string beside = fields, all = fields;
  if (n->has_dense()) {
    std::string bottom = "dense";
    for (int i = 0; i < n->model().bottom_size(); ++i) {
      const std::string name = absl::StrCat("bottom_", i);
      bottom = n->Activate(name, n->Linear(name, bottom, n->model().bottom(i), true, false));
    }
    beside = n->Activate("bottom", n->Linear("bottom", bottom, n->dim(), true, false));
    all = n->Concat("fields", {beside, fields});
  }
  n->Add("dot", {all})->mutable_dot_interaction()->set_dim(n->dim());
  const std::string top = n->Hidden(n->Concat("top_input", {beside, "dot"}), 0);
  n->Linear("output", top, n->outputs(), true, false);
}

void Mlp(Network* n) { n->Linear("output", n->Hidden(n->DeepInput(n->Fields()), 0), n->outputs(), true, false); }

// Extreme classification: the features are one long sparse vector, so the first hidden layer's matrix is the table
// itself (a row per feature) instead of narrow rows that are pooled before it.
void SparseMlp(Network* n) {
  const uint32_t width = n->model().hidden(0);
  const std::string first = n->Sum("hidden_0", {n->Embedding("embedding", width, n->model().embedding_init(), true),
                                                n->Linear("hidden_0_dense", "dense", width, true, false)});
  n->Linear("output", n->Hidden(n->Activate("hidden_0", first), 1), n->outputs(), true, false);
}

std::string PresetName(Model::Preset preset) { return absl::AsciiStrToLower(Model::Preset_Name(preset)); }

absl::Status CheckFits(const Model& model, const FeatureSchema& schema, uint32_t outputs) {
  const Model::Preset preset = model.preset();
  const bool factorizes = preset == Model::FM || preset == Model::DEEPFM;
  if (factorizes && outputs != 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("model.preset: ", PresetName(preset), " has 1 output, but model.outputs is ", outputs));
  }
  // deepfm: keys of one slot are pooled into one field before they could meet.
  const int needed_slots = preset == Model::DEEPFM ? 2 : preset == Model::FM || preset == Model::DLRM ? 1 : 0;
  if (schema.slots_size() < needed_slots) {
    return absl::InvalidArgumentError(absl::StrCat("model.preset: ", PresetName(preset), " needs at least ",
                                                   needed_slots, " slots, but the data has ", schema.slots_size()));
  }
  if (schema.slots_size() + schema.dense_size() == 0) {
    return absl::InvalidArgumentError("model: the data has neither sparse nor dense features");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Model::Loss> ResolveLoss(const Job& job, const FeatureSchema& schema) {
  const FeatureSchema::LabelKind kind = schema.label_kind();
  Model::Loss loss = job.model().loss();
  if (loss == Model::DEFAULT) {
    if (kind == FeatureSchema::CLASS) return Model::SOFTMAX_CROSS_ENTROPY;
    return kind == FeatureSchema::MULTI_LABEL ? Model::MULTI_LABEL_BCE : Model::BINARY_CROSS_ENTROPY;
  }
  if ((loss == Model::MULTI_LABEL_BCE) != (kind == FeatureSchema::MULTI_LABEL)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "model.loss: ", absl::AsciiStrToLower(Model::Loss_Name(loss)),
        kind == FeatureSchema::MULTI_LABEL ? ", but examples have sets of labels, which need multi_label_bce"
                                           : " needs sets of labels, but examples have one label each"));
  }
  return loss;
}

absl::StatusOr<uint32_t> ResolveOutputs(const Job& job, const FeatureSchema& schema) {
  SHOAL_ASSIGN_OR_RETURN(const Model::Loss loss, ResolveLoss(job, schema));
  const uint32_t chosen = job.model().outputs() == 0 ? 1 : job.model().outputs();
  if (loss == Model::BINARY_CROSS_ENTROPY || loss == Model::SQUARED_ERROR) {
    if (chosen == 1) return 1;
    return absl::InvalidArgumentError(absl::StrCat("model.outputs: ", chosen, ", but ",
                                                   absl::AsciiStrToLower(Model::Loss_Name(loss)), " has 1 output"));
  }
  if (chosen == 1 && schema.label_count() > 0) return schema.label_count();
  if (chosen < schema.label_count()) {
    return absl::InvalidArgumentError(
        absl::StrCat("model.outputs: ", chosen, ", but the data has ", schema.label_count(), " classes or labels"));
  }
  return chosen;
}

absl::StatusOr<std::vector<Layer>> ExpandPreset(const Job& job, const FeatureSchema& schema) {
  const Model& model = job.model();
  if (model.preset() != Model::NONE && model.layers_size() > 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("model: has preset ", PresetName(model.preset()), " and layers; one of them is needed"));
  }
  if (model.layers_size() > 0) return std::vector<Layer>(model.layers().begin(), model.layers().end());
  SHOAL_ASSIGN_OR_RETURN(const uint32_t outputs, ResolveOutputs(job, schema));
  SHOAL_RETURN_IF_ERROR(CheckFits(model, schema, outputs));
  Network network(model, schema, outputs);
  switch (model.preset()) {
    case Model::LR:
      Lr(&network);
      break;
    case Model::FM:
      Fm(&network);
      break;
    case Model::WIDE_DEEP:
      WideDeep(&network);
      break;
    case Model::DEEPFM:
      DeepFm(&network);
      break;
    case Model::DCN:
      Dcn(&network);
      break;
    case Model::DLRM:
      Dlrm(&network);
      break;
    case Model::MLP:
      if (schema.label_kind() == FeatureSchema::MULTI_LABEL && schema.slots_size() > 0 && model.hidden_size() > 0) {
        SparseMlp(&network);
      } else {
        Mlp(&network);
      }
      break;
    case Model::COUNTING:
      return absl::InvalidArgumentError("model.preset: counting is not made of layers");
    default:
      return absl::InvalidArgumentError("model: needs a preset or layers");
  }
  return network.Take();
}

}  // namespace shoal
