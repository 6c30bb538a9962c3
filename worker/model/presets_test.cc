#include "worker/model/presets.h"

#include <catch2/catch.hpp>

#include "worker/model/testing.h"

namespace shoal {
namespace {

Job PresetJob(Model::Preset preset) {
  Job job;
  Model* model = job.mutable_model();
  model->set_preset(preset);
  model->set_embedding_dim(4);
  model->set_embedding_init(0.1f);
  model->add_hidden(16);
  model->add_hidden(8);
  model->add_bottom(8);
  return job;
}

// Three slots of 6 tokens, two dense values. The label depends on a token, on a dense value and on whether the first
// two tokens have equal parity (an interaction, which lr cannot learn).
Batch ToyBatch(const FeatureSchema& schema, uint64_t seed, uint32_t rows) {
  BatchBuilder builder(schema);
  Random random({seed});
  for (uint32_t r = 0; r < rows; ++r) {
    std::vector<std::vector<uint64_t>> bags;
    std::vector<uint64_t> tokens;
    for (int s = 0; s < schema.slots_size(); ++s) {
      tokens.push_back(random.Below(6));
      bags.push_back({HashCoordinates({static_cast<uint64_t>(s), tokens.back()})});
    }
    std::vector<float> dense;
    for (int d = 0; d < schema.dense_size(); ++d) dense.push_back(static_cast<float>(random.Normal()));
    double score = tokens[2] < 3 ? 1.5 : -1.5;
    score += (tokens[0] + tokens[1]) % 2 == 0 ? 2 : -2;
    if (!dense.empty()) score += 1.5 * dense[0];
    builder.Add(score > 0 ? 1.0f : 0.0f, bags, dense);
  }
  return *builder.batch();
}

double MeanLossAfterTraining(const Job& job, const FeatureSchema& schema) {
  auto graph = ModelGraph::Create(job, schema);
  REQUIRE(graph.status() == absl::OkStatus());
  TestModel model(std::move(graph).value(), 7);
  for (uint64_t step = 0; step < 150; ++step) {
    const Batch batch = ToyBatch(schema, 100 + step % 30, 64);
    REQUIRE(model.Run(batch, true).ok());
    model.Step(batch, 0.1f);
  }
  const Batch test = ToyBatch(schema, 5000, 1000);
  auto result = model.Run(test, false);
  REQUIRE(result.ok());
  REQUIRE(result->predictions.size() == test.rows);
  return result->loss_sum / test.rows;
}

TEST_CASE("Presets: each learns what its kind of network can learn", "[unit]") {
  const FeatureSchema schema = MakeTestSchema(3, 2);
  // Without the interaction nobody gets below about .42; ln 2 = .693 is knowing nothing.
  const double lr = MeanLossAfterTraining(PresetJob(Model::LR), schema);
  CHECK(lr < 0.55);
  CHECK(lr > 0.35);
  for (Model::Preset preset : {Model::FM, Model::WIDE_DEEP, Model::DEEPFM, Model::DCN, Model::DLRM, Model::MLP}) {
    INFO(Model::Preset_Name(preset));
    CHECK(MeanLossAfterTraining(PresetJob(preset), schema) < 0.3);
  }
}

TEST_CASE("Presets: data without dense values works, with cross rank, dropout and layer norm", "[unit]") {
  const FeatureSchema schema = MakeTestSchema(3, 0);
  for (Model::Preset preset :
       {Model::LR, Model::FM, Model::WIDE_DEEP, Model::DEEPFM, Model::DCN, Model::DLRM, Model::MLP}) {
    INFO(Model::Preset_Name(preset));
    Job job = PresetJob(preset);
    job.mutable_model()->set_cross_rank(2);
    job.mutable_model()->set_dropout(0.1f);
    job.mutable_model()->set_layer_norm(true);
    job.mutable_model()->set_activation(Model::TANH);
    const double loss = MeanLossAfterTraining(job, schema);
    // Here the interaction alone decides the sign, so lr must know nothing.
    CHECK(loss < (preset == Model::LR ? 0.72 : 0.35));
  }
}

TEST_CASE("Presets: the expanded layers written out make the same model", "[unit]") {
  const FeatureSchema schema = MakeTestSchema(3, 2);
  for (Model::Preset preset : {Model::DEEPFM, Model::DCN, Model::DLRM}) {
    const Job job = PresetJob(preset);
    auto layers = ExpandPreset(job, schema);
    REQUIRE(layers.ok());
    Job written;
    for (const Layer& layer : *layers) *written.mutable_model()->add_layers() = layer;
    auto a = ModelGraph::Create(job, schema), b = ModelGraph::Create(written, schema);
    REQUIRE(b.status() == absl::OkStatus());
    CHECK((*a)->spec().SerializeAsString() == (*b)->spec().SerializeAsString());
    CHECK((*a)->groups() == (*b)->groups());
    CHECK(MeanLossAfterTraining(job, schema) == MeanLossAfterTraining(written, schema));
  }
}

TEST_CASE("Presets: outputs and losses follow the data", "[unit]") {
  FeatureSchema schema = MakeTestSchema(1, 0);
  schema.set_label_kind(FeatureSchema::MULTI_LABEL);
  schema.set_label_count(9);
  auto graph = ModelGraph::Create(PresetJob(Model::LR), schema);
  REQUIRE(graph.status() == absl::OkStatus());
  CHECK((*graph)->loss() == Model::MULTI_LABEL_BCE);
  CHECK((*graph)->outputs() == 9);
  REQUIRE((*graph)->spec().tables_size() == 1);
  CHECK((*graph)->spec().tables(0).name() == "linear");
  CHECK((*graph)->spec().tables(0).dim() == 9);
  CHECK((*graph)->spec().tables(0).init_stddev() == 0);
  REQUIRE((*graph)->spec().tensors_size() == 1);
  CHECK((*graph)->spec().tensors(0).name() == "linear_dense/bias");

  graph = ModelGraph::Create(PresetJob(Model::MLP), schema);
  REQUIRE(graph.status() == absl::OkStatus());
  CHECK((*graph)->spec().tables(0).dim() == 16);

  FeatureSchema classes = MakeTestSchema(0, 784);
  classes.set_label_kind(FeatureSchema::CLASS);
  classes.set_label_count(10);
  graph = ModelGraph::Create(PresetJob(Model::MLP), classes);
  REQUIRE(graph.status() == absl::OkStatus());
  CHECK((*graph)->loss() == Model::SOFTMAX_CROSS_ENTROPY);
  CHECK((*graph)->outputs() == 10);
  CHECK((*graph)->groups().empty());
  CHECK((*graph)->spec().tensors(0).name() == "hidden_0/weight");
  CHECK((*graph)->spec().tensors(0).shape(0) == 784);
  CHECK((*graph)->spec().tensors(0).init() == TensorSpec::GLOROT_UNIFORM);
}

TEST_CASE("Presets: what does not fit is an error that says why", "[unit]") {
  auto message = [](const Job& job, const FeatureSchema& schema) {
    return std::string(ModelGraph::Create(job, schema).status().message());
  };
  CHECK(message(Job(), MakeTestSchema(2, 0)) == "model: needs a preset or layers");
  CHECK(message(PresetJob(Model::FM), MakeTestSchema(0, 3)) ==
        "model.preset: fm needs at least 1 slots, but the data has 0");
  CHECK(message(PresetJob(Model::DEEPFM), MakeTestSchema(1, 3)) ==
        "model.preset: deepfm needs at least 2 slots, but the data has 1");
  CHECK(message(PresetJob(Model::LR), MakeTestSchema(0, 0)) == "model: the data has neither sparse nor dense features");
  Job job = PresetJob(Model::LR);
  job.mutable_model()->set_outputs(3);
  CHECK(message(job, MakeTestSchema(2, 0)) == "model.outputs: 3, but binary_cross_entropy has 1 output");
  job = PresetJob(Model::LR);
  job.mutable_model()->add_layers();
  CHECK(message(job, MakeTestSchema(2, 0)) == "model: has preset lr and layers; one of them is needed");
  job = PresetJob(Model::LR);
  job.mutable_model()->set_loss(Model::MULTI_LABEL_BCE);
  CHECK(message(job, MakeTestSchema(2, 0)) ==
        "model.loss: multi_label_bce needs sets of labels, but examples have one label each");
  FeatureSchema classes = MakeTestSchema(2, 0);
  classes.set_label_kind(FeatureSchema::CLASS);
  classes.set_label_count(10);
  job = PresetJob(Model::LR);
  job.mutable_model()->set_outputs(4);
  CHECK(message(job, classes) == "model.outputs: 4, but the data has 10 classes or labels");
}

}  // namespace
}  // namespace shoal
