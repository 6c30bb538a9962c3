// Every layer: values computed by hand, gradients against finite differences, and what it refuses.
#include <algorithm>
#include <catch2/catch.hpp>

#include "worker/model/random_model.h"

namespace shoal {
namespace {

std::string CreateError(const std::vector<std::string>& layers, const FeatureSchema& schema) {
  return std::string(ModelGraph::Create(LayersJob(layers), schema).status().message());
}

// d loss / d value by central differences of steps h and 2h, extrapolated (Richardson), so that the error is of order
// h^4. The loss is summed in double; what remains is the rounding of its float terms: a few ulps of the loss's size,
// divided by the step.
double Difference(TestModel* model, const Batch& batch, float* value) {
  constexpr double kStep = 1.0 / 32;
  const float saved = *value;
  auto loss = [&](double offset) {
    *value = static_cast<float>(saved + offset);
    auto result = model->Run(batch, true);
    REQUIRE(result.ok());
    return result->loss_sum;
  };
  const double fine = (loss(kStep) - loss(-kStep)) / (2 * kStep);
  const double coarse = (loss(2 * kStep) - loss(-2 * kStep)) / (4 * kStep);
  *value = saved;
  return (4 * fine - coarse) / 3;
}

// Compares every gradient that Train writes with finite differences of the very loss that Train returns.
void CheckGradients(const Job& job, const FeatureSchema& schema, uint64_t seed = 1) {
  TestModel model = MakeModel(job, schema, seed);
  model.InitRows(0.6);
  // Away from their initial zeros, so that nothing is right by accident.
  Random random({seed, 3});
  for (std::vector<float>& tensor : model.tensors) {
    for (float& v : tensor) v += static_cast<float>(0.3 * random.Normal());
  }
  const Batch batch = RandomBatch(schema, model.graph().loss(), model.graph().outputs(), 5, seed);
  auto result = model.Run(batch, true);
  REQUIRE(result.status() == absl::OkStatus());
  const std::vector<std::vector<float>> tensor_gradients = model.tensor_gradients, row_gradients = model.row_gradients;
  // Rounding: some 64 float operations of relative error 2^-24 on values about as large as the loss, over a step of
  // 1/32; the remainder of the extrapolation is h^4 / 4 times a fifth derivative, which is of the order of the loss.
  const double scale = 1 + std::fabs(result->loss_sum);
  const double tolerance = scale * (64 * 0x1.0p-24 * 32 + 0x1.0p-20 / 4) * 4;
  for (size_t t = 0; t < model.tensors.size(); ++t) {
    for (size_t i = 0; i < model.tensors[t].size(); ++i) {
      INFO(model.graph().spec().tensors(static_cast<int>(t)).name() << "[" << i << "]");
      CHECK(tensor_gradients[t][i] == Approx(Difference(&model, batch, &model.tensors[t][i])).margin(tolerance));
    }
  }
  for (size_t t = 0; t < row_gradients.size(); ++t) {
    const KeyGroup group = model.groups()[model.graph().group_of_table()[t]];
    for (size_t k = 0; k < group.keys.size(); ++k) {
      std::vector<float>& row = model.Row(t, group.keys[k]);
      for (size_t d = 0; d < row.size(); ++d) {
        INFO(model.graph().spec().tables(static_cast<int>(t)).name() << ", key " << group.keys[k] << ", column " << d);
        const double expected = Difference(&model, batch, &row[d]);
        CHECK(row_gradients[t][k * row.size() + d] == Approx(expected).margin(tolerance));
      }
    }
  }
}

const char kRows[] = "name: 'e' embedding { dim: 3 }";
const char kOut[] = "name: 'out' linear { units: 1 bias: true }";

TEST_CASE("Gradients: embedding, sum and mean, summed slots, subsets and shared tables", "[unit]") {
  const FeatureSchema schema = MakeTestSchema(3, 2);
  CheckGradients(LayersJob({kRows, kOut}), schema);
  CheckGradients(LayersJob({"name: 'e' embedding { dim: 3 pooling: MEAN }", kOut}), schema);
  CheckGradients(LayersJob({"name: 'e' embedding { dim: 3 sum_slots: true }", kOut}), schema);
  CheckGradients(LayersJob({"name: 'e' embedding { dim: 2 slots: 's2' slots: 's0' }", kOut}), schema);
  CheckGradients(LayersJob({"name: 'a' embedding { dim: 2 slots: 's0' table: 't' }",
                            "name: 'b' embedding { dim: 2 slots: ['s1', 's0'] table: 't' pooling: MEAN }",
                            "name: 'c' inputs: ['a', 'b'] concat {}", kOut}),
                 schema);
}

TEST_CASE("Gradients: linear and activations", "[unit]") {
  const FeatureSchema schema = MakeTestSchema(2, 3);
  CheckGradients(LayersJob({"name: 'h' inputs: 'dense' linear { units: 4 bias: true }", kOut}), schema);
  for (const char* function : {"SIGMOID", "TANH", "LINEAR"}) {
    INFO(function);
    CheckGradients(LayersJob({kRows, "name: 'h' linear { units: 4 bias: true }",
                              std::string("name: 'a' activation { function: ") + function + " }", kOut}),
                   schema);
  }
}

// Relu has a kink, where differences are no derivative: a bias far from 0 keeps every unit on one side of it.
TEST_CASE("Gradients: relu", "[unit]") {
  const FeatureSchema schema = MakeTestSchema(2, 0);
  const Job job = LayersJob({kRows, "name: 'h' linear { units: 2 bias: true }", "name: 'a' activation {}", kOut});
  TestModel model = MakeModel(job, schema);
  model.InitRows(0.1);
  REQUIRE(model.graph().spec().tensors(1).name() == "h/bias");
  model.tensors[1] = {3, -3};
  const Batch batch = RandomBatch(schema, Model::SQUARED_ERROR, 1, 5, 4);
  REQUIRE(model.Run(batch, true).ok());
  const std::vector<std::vector<float>> gradients = model.tensor_gradients;
  for (size_t t = 0; t < model.tensors.size(); ++t) {
    for (size_t i = 0; i < model.tensors[t].size(); ++i) {
      CHECK(gradients[t][i] == Approx(Difference(&model, batch, &model.tensors[t][i])).margin(1e-3));
    }
  }
  CHECK(gradients[1][0] != 0);
  CHECK(gradients[1][1] == 0);
}

TEST_CASE("Gradients: fm, dot interaction, cross", "[unit]") {
  const FeatureSchema schema = MakeTestSchema(3, 2);
  CheckGradients(LayersJob({kRows, "name: 'f' fm { dim: 3 }"}), schema);
  CheckGradients(LayersJob({kRows, "name: 'd' dot_interaction { dim: 3 }", kOut}), schema);
  for (const char* dim : {"1", "3", "16", "17"}) {
    CheckGradients(LayersJob({std::string("name: 'f' factorization { dim: ") + dim + " }"}), schema);
  }
  CheckGradients(
      LayersJob({kRows, "name: 'f' factorization { dim: 3 table: 'e' slots: ['s1', 's2'] }",
                 "name: 'out' inputs: 'e' linear { units: 1 bias: true }", "name: 'all' inputs: ['f', 'out'] sum {}"}),
      schema);
  const std::string first = "name: 'x1' inputs: ['x0', 'x0'] cross { rank: RANK }";
  const std::string second = "name: 'x2' inputs: ['x0', 'x1'] cross { rank: RANK }";
  for (const char* rank : {"0", "2"}) {
    auto with_rank = [&](std::string text) { return text.replace(text.find("RANK"), 4, rank); };
    CheckGradients(LayersJob({"name: 'e' embedding { dim: 1 }", "name: 'x0' inputs: ['e', 'dense'] concat {}",
                              with_rank(first), with_rank(second), kOut}),
                   schema);
  }
}

TEST_CASE("Gradients: concat, sum, dropout, layer norm, one output used by many", "[unit]") {
  const FeatureSchema schema = MakeTestSchema(2, 2);
  CheckGradients(LayersJob({kRows, "name: 'c' inputs: ['e', 'dense', 'e'] concat {}", kOut}), schema);
  CheckGradients(LayersJob({kRows, "name: 's' inputs: ['e', 'e'] sum {}", "name: 't' inputs: ['e', 's'] sum {}",
                            "name: 'c' inputs: ['t', 's', 'e'] concat {}", kOut}),
                 schema);
  CheckGradients(LayersJob({kRows, "name: 'd' dropout { rate: 0.4 }", kOut}), schema);
  // A constant row would be a point where the norm bends sharply: weights and dense values keep rows apart.
  CheckGradients(
      LayersJob({"name: 'h' inputs: 'dense' linear { units: 5 bias: true }", "name: 'n' layer_norm { epsilon: 0.1 }",
                 "name: 'g' linear { units: 3 }", "name: 'm' layer_norm { epsilon: 0.1 }", kOut}),
      schema);
  CheckGradients(
      LayersJob({kRows, "name: 'a' activation { function: TANH }", "name: 'b' inputs: ['e', 'a'] sum {}",
                 "name: 'n' inputs: 'b' layer_norm { epsilon: 0.1 }", "name: 'f' inputs: ['b'] fm { dim: 3 }",
                 "name: 'o' inputs: 'n' linear { units: 1 }", "name: 'out' inputs: ['f', 'o'] sum {}"}),
      schema);
}

TEST_CASE("Gradients: every loss", "[unit]") {
  FeatureSchema schema = MakeTestSchema(2, 1);
  const std::string out3 = "name: 'out' linear { units: 3 bias: true }";
  CheckGradients(LayersJob({kRows, kOut}, Model::BINARY_CROSS_ENTROPY), schema);
  CheckGradients(LayersJob({kRows, out3}, Model::SOFTMAX_CROSS_ENTROPY, 3), schema);
  schema.set_label_kind(FeatureSchema::MULTI_LABEL);
  CheckGradients(LayersJob({kRows, out3}, Model::MULTI_LABEL_BCE, 3), schema);
}

// Predictions of a model whose last layer is squared-error's output, after `set` chose its parameters.
std::vector<float> Predict(const Job& job, const FeatureSchema& schema, const Batch& batch,
                           const std::function<void(TestModel*)>& set) {
  TestModel model = MakeModel(job, schema);
  set(&model);
  auto result = model.Run(batch, false);
  REQUIRE(result.status() == absl::OkStatus());
  return {result->predictions.begin(), result->predictions.end()};
}

TEST_CASE("Values: embedding pools weighted rows; an empty bag is zero", "[unit]") {
  const FeatureSchema schema = MakeTestSchema(2, 0);
  BatchBuilder builder(schema);
  builder.Add(0, {{1, 2}, {3}}, {});
  builder.Add(0, {{}, {1}}, {});
  builder.Add(0, {{}, {}}, {});
  builder.batch()->slots[0].weights = {2, 0.5f};
  auto set = [](TestModel* model) {
    for (uint64_t key : {1, 2, 3}) model->Row(0, key) = {static_cast<float>(key), static_cast<float>(10 * key)};
    // Weights of the output tell the columns apart: s0.0, s0.1, s1.0, s1.1.
    if (!model->tensors.empty()) model->tensors[0] = {1, 10, 1000, 500};
  };
  const std::string out = "name: 'out' linear { units: 1 }";
  CHECK(Predict(LayersJob({"name: 'e' embedding { dim: 2 }", out}), schema, *builder.batch(), set) ==
        std::vector<float>{3 + 300 + 3000 + 15000, 1000 + 5000, 0});
  CHECK(Predict(LayersJob({"name: 'e' embedding { dim: 2 pooling: MEAN }", out}), schema, *builder.batch(), set) ==
        std::vector<float>{1.5f + 150 + 3000 + 15000, 1000 + 5000, 0});
  auto set_sum = [](TestModel* model) {
    for (uint64_t key : {1, 2, 3}) model->Row(0, key) = {static_cast<float>(key)};
  };
  CHECK(Predict(LayersJob({"name: 'e' embedding { dim: 1 sum_slots: true }"}), schema, *builder.batch(), set_sum) ==
        std::vector<float>{6, 1, 0});
}

TEST_CASE("Values: fm, dot interaction, cross, layer norm by hand", "[unit]") {
  const FeatureSchema schema = MakeTestSchema(0, 6);
  BatchBuilder builder(schema);
  builder.Add(0, {}, {1, 2, 3, 4, 5, 6});
  const Batch& batch = *builder.batch();
  // Fields (1,2), (3,4), (5,6): dot products 11, 17, 39.
  CHECK(Predict(LayersJob({"name: 'f' fm { dim: 2 }"}), schema, batch, [](TestModel*) {}) == std::vector<float>{67});
  CHECK(Predict(LayersJob({"name: 'd' dot_interaction { dim: 2 }", "name: 'o' linear { units: 1 }"}), schema, batch,
                [](TestModel* model) {
                  model->tensors[0] = {1, 100, 10000};
                }) == std::vector<float>{11 + 1700 + 390000});
  // Every u = sum of x + 1 = 22, y = 22 x + x = 23 x.
  auto cross = [](TestModel* model) {
    model->tensors[0].assign(36, 1);
    model->tensors[1].assign(6, 1);
    model->tensors[2] = {1, 0, 0, 0, 0, 10};
  };
  CHECK(Predict(LayersJob({"name: 'x' inputs: ['dense', 'dense'] cross {}", "name: 'o' linear { units: 1 }"}), schema,
                batch, cross) == std::vector<float>{23 + 10 * 138});
  // Mean 3.5, variance 35/12.
  const std::vector<float> normal =
      Predict(LayersJob({"name: 'n' layer_norm { epsilon: 1e-12 }", "name: 'o' linear { units: 1 }"}), schema, batch,
              [](TestModel* model) {
                model->tensors[0].assign(6, 2);
                model->tensors[1].assign(6, 0.5f);
                model->tensors[2] = {0, 0, 0, 0, 0, 1};
              });
  CHECK(normal[0] == Approx(2.5 / std::sqrt(35.0 / 12) * 2 + 0.5));
}

TEST_CASE("Values: factorization sums the dot products of all pairs of an example's weighted keys", "[unit]") {
  const FeatureSchema schema = MakeTestSchema(2, 0);
  TestModel model = MakeModel(LayersJob({"name: 'f' factorization { dim: 2 }"}), schema);
  model.Row(0, 1) = {1, 2};
  model.Row(0, 2) = {3, -1};
  model.Row(0, 3) = {0.5f, 4};
  BatchBuilder builder(schema);
  builder.Add(0, {{1, 2}, {3}}, {});
  builder.Add(0, {{}, {2}}, {});
  builder.Add(0, {{}, {}}, {});
  builder.batch()->slots[0].weights = {1, 2};
  auto result = model.Run(*builder.batch(), false);
  REQUIRE(result.ok());
  // 1 * 2: (1, 2)(6, -2) = 2; 1 * 3: (1, 2)(.5, 4) = 8.5; 2 * 3: (6, -2)(.5, 4) = -5.
  CHECK(result->predictions[0] == Approx(5.5));
  CHECK(result->predictions[1] == 0);
  CHECK(result->predictions[2] == 0);
}

TEST_CASE("Precision bf16: losses and gradients stay near those of f32, and train as well", "[unit]") {
  const FeatureSchema schema = MakeTestSchema(3, 20);
  const std::vector<std::string> layers = {"name: 'e' embedding { dim: 7 }",
                                           "name: 'c' inputs: ['e', 'dense'] concat {}",
                                           "name: 'h' linear { units: 40 bias: true }",
                                           "name: 'a' activation {}",
                                           "name: 'i' linear { units: 17 bias: true }",
                                           "name: 'b' activation {}",
                                           kOut};
  Job job = LayersJob(layers, Model::BINARY_CROSS_ENTROPY);
  TestModel f32 = MakeModel(job, schema);
  job.set_precision(BF16);
  TestModel bf16 = MakeModel(job, schema);
  for (TestModel* model : {&f32, &bf16}) model->InitRows(0.6);
  const Batch batch = RandomBatch(schema, Model::BINARY_CROSS_ENTROPY, 1, 300, 9);
  // bf16 has 8 bits: a product of two rounded factors is within 2^-8 of the right one, a sum of many mostly better.
  double first[2];
  for (int step = 0; step < 30; ++step) {
    auto exact = f32.Run(batch, true), rounded = bf16.Run(batch, true);
    REQUIRE(exact.ok());
    REQUIRE(rounded.ok());
    if (step == 0) {
      first[0] = exact->loss_sum;
      first[1] = rounded->loss_sum;
      CHECK(first[0] != first[1]);
      double error = 0, size = 0;
      for (size_t t = 0; t < f32.tensors.size(); ++t) {
        for (size_t i = 0; i < f32.tensors[t].size(); ++i) {
          const double difference = f32.tensor_gradients[t][i] - bf16.tensor_gradients[t][i];
          error += difference * difference;
          size += f32.tensor_gradients[t][i] * f32.tensor_gradients[t][i];
        }
      }
      CHECK(error < size * 0x1p-8);  // a rectifier that rounding turns on or off changes a gradient by all of it
    }
    f32.Step(batch, 0.1f);
    bf16.Step(batch, 0.1f);
  }
  CHECK(f32.Run(batch, true)->loss_sum < 0.2 * first[0]);
  CHECK(bf16.Run(batch, true)->loss_sum < 0.2 * first[1]);
}

TEST_CASE("Values: losses and predictions by hand, also for extreme logits", "[unit]") {
  FeatureSchema schema = MakeTestSchema(0, 1);
  auto pass = [](TestModel* model) { model->tensors[0] = {1}; };
  const std::string out = "name: 'o' linear { units: 1 }";
  BatchBuilder builder(schema);
  for (const auto& [z, y] : std::vector<std::pair<float, float>>{{0, 1}, {1, 0}, {1000, 0}, {-1000, 1}, {1000, 1}}) {
    builder.Add(y, {}, {z});
  }
  TestModel model = MakeModel(LayersJob({out}, Model::BINARY_CROSS_ENTROPY), schema);
  pass(&model);
  auto result = model.Run(*builder.batch(), true);
  REQUIRE(result.ok());
  CHECK(result->loss_sum == Approx(std::log(2) + std::log1p(std::exp(1)) + 2000));
  CHECK(result->predictions[0] == 0.5f);
  CHECK(result->predictions[1] == Approx(1 / (1 + std::exp(-1))));
  CHECK(result->predictions[2] == 1);
  CHECK(result->predictions[3] == 0);
  // d loss / d weight = sum (p - y) z.
  CHECK(model.tensor_gradients[0][0] == Approx(0.7310586 + 1000 + 1000));

  TestModel squared = MakeModel(LayersJob({out}, Model::SQUARED_ERROR), schema);
  pass(&squared);
  result = squared.Run(*builder.batch(), true);
  CHECK(result->loss_sum == Approx(0.5 * (1 + 1 + 1e6 + 1001.0 * 1001 + 999.0 * 999)));
}

TEST_CASE("Values: softmax and multi-label by hand", "[unit]") {
  FeatureSchema schema = MakeTestSchema(0, 3);
  schema.set_label_kind(FeatureSchema::CLASS);
  const std::string identity = "name: 'a' inputs: 'dense' activation { function: LINEAR }";
  BatchBuilder builder(schema);
  builder.Add(2, {}, {0, static_cast<float>(std::log(2)), static_cast<float>(std::log(5))});
  builder.Add(0, {}, {1e4f, 0, -1e4f});
  TestModel softmax = MakeModel(LayersJob({identity}, Model::DEFAULT, 3), schema);
  auto result = softmax.Run(*builder.batch(), false);
  REQUIRE(result.ok());
  CHECK(result->loss_sum == Approx(-std::log(5.0 / 8)));
  CHECK(result->predictions[0] == Approx(1.0 / 8));
  CHECK(result->predictions[2] == Approx(5.0 / 8));
  CHECK(result->predictions[3] == 1);

  schema.set_label_kind(FeatureSchema::MULTI_LABEL);
  BatchBuilder labels(schema);
  labels.Add(0, {}, {0, 1, -2});
  labels.AddLabels({0, 2});
  labels.Add(0, {}, {0, 0, 0});
  labels.AddLabels({});
  TestModel multi = MakeModel(LayersJob({identity}, Model::DEFAULT, 3), schema);
  result = multi.Run(*labels.batch(), false);
  REQUIRE(result.ok());
  CHECK(result->loss_sum == Approx(4 * std::log(2) + std::log1p(std::exp(1)) + std::log1p(std::exp(2))));
  CHECK(result->predictions[2] == Approx(1 / (1 + std::exp(2))));
}

TEST_CASE("Dropout: a function of the record, not of the batch that carries it; off in evaluation", "[unit]") {
  const FeatureSchema schema = MakeTestSchema(0, 64);
  const Job job = LayersJob({"name: 'd' inputs: 'dense' dropout { rate: 0.25 }", "name: 'o' linear { units: 1 }"});
  auto predict = [&](const Batch& batch, bool train, uint64_t seed) {
    TestModel model = MakeModel(job, schema, seed);
    model.tensors[0].assign(64, 1);
    auto result = model.Run(batch, train);
    REQUIRE(result.ok());
    return std::vector<float>(result->predictions.begin(), result->predictions.end());
  };
  BatchBuilder all(schema), second(schema);
  const std::vector<float> ones(64, 1.0f);
  for (int r = 0; r < 200; ++r) all.Add(0, {}, ones);
  second.Add(0, {}, ones);
  second.batch()->records = {1};
  const std::vector<float> whole = predict(*all.batch(), true, 1);
  // One value is 4/3 or 0; the order of the product's sum may differ with the number of rows.
  CHECK(predict(*second.batch(), true, 1)[0] == Approx(whole[1]));
  CHECK(predict(*all.batch(), true, 2) != whole);
  CHECK(predict(*all.batch(), false, 1) == std::vector<float>(200, 64.0f));
  second.batch()->split = 1;
  const float other_split = predict(*second.batch(), true, 1)[0];
  second.batch()->split = 0;
  second.batch()->pass = 1;
  const float other_pass = predict(*second.batch(), true, 1)[0];
  CHECK((std::fabs(other_split - whole[1]) > 1 || std::fabs(other_pass - whole[1]) > 1));
  // 12800 values, each kept with probability 3/4 and scaled by 4/3: the mean is 64 within 5 deviations of .33.
  double mean = 0;
  for (float v : whole) mean += v / 200;
  CHECK(std::fabs(mean - 64) < 1.7);
}

TEST_CASE("Empty: a batch of no rows gives zero gradients, no predictions and no loss", "[unit]") {
  const FeatureSchema schema = MakeTestSchema(2, 2);
  TestModel model = MakeModel(LayersJob({kRows, "name: 'n' layer_norm {}", "name: 'c' inputs: ['n', 'dense'] concat {}",
                                         "name: 'x' inputs: ['c', 'c'] cross { rank: 2 }", kOut}),
                              schema);
  REQUIRE(model.Run(RandomBatch(schema, Model::SQUARED_ERROR, 1, 4, 1), true).ok());
  auto result = model.Run(*BatchBuilder(schema).batch(), true);
  REQUIRE(result.ok());
  CHECK(result->predictions.empty());
  CHECK(result->loss_sum == 0);
  for (const std::vector<float>& gradient : model.tensor_gradients) {
    CHECK(gradient == std::vector<float>(gradient.size(), 0.0f));
  }
}

TEST_CASE("Groups: tables with equal slots share one, shared tables take the union", "[unit]") {
  auto graph = ModelGraph::Create(
      LayersJob({"name: 'a' embedding { dim: 2 }", "name: 'b' embedding { dim: 1 slots: ['s2', 's0'] }",
                 "name: 'c' embedding { dim: 3 }", "name: 'd' embedding { dim: 4 table: 't' slots: 's2' }",
                 "name: 'e' embedding { dim: 4 table: 't' slots: 's0' }",
                 "name: 'f' inputs: ['a', 'b', 'c', 'd', 'e'] concat {}", kOut}),
      MakeTestSchema(3, 0));
  REQUIRE(graph.ok());
  CHECK((*graph)->spec().tables_size() == 4);
  CHECK((*graph)->groups() == std::vector<std::vector<uint32_t>>{{0, 1, 2}, {0, 2}});
  CHECK((*graph)->group_of_table() == std::vector<uint32_t>{0, 1, 0, 1});
}

TEST_CASE("Same bits: whatever ran before in the workspace, and however large it has grown", "[unit]") {
  const FeatureSchema schema = MakeTestSchema(3, 2);
  const Job job = LayersJob({kRows, "name: 'c' inputs: ['e', 'dense'] concat {}", "name: 'h' linear { units: 40 }",
                             "name: 'a' activation {}", "name: 'd' dropout { rate: 0.3 }", kOut});
  const Batch small = RandomBatch(schema, Model::SQUARED_ERROR, 1, 37, 2);
  TestModel fresh = MakeModel(job, schema), used = MakeModel(job, schema);
  REQUIRE(used.Run(RandomBatch(schema, Model::SQUARED_ERROR, 1, 500, 3), true).ok());
  REQUIRE(fresh.Run(small, true).ok());
  REQUIRE(used.Run(small, true).ok());
  CHECK(fresh.tensor_gradients == used.tensor_gradients);
  CHECK(fresh.row_gradients == used.row_gradients);
}

TEST_CASE("Shapes: errors name the layer and both shapes", "[unit]") {
  const FeatureSchema schema = MakeTestSchema(2, 3);
  const std::string e = "name: 'e' embedding { dim: 4 }";
  CHECK(CreateError({e}, schema) ==
        "layer e: the last layer's output is [batch, 8], but the loss needs [batch, 1] (model.outputs)");
  CHECK(CreateError({e, "name: 'f' fm { dim: 3 }"}, schema) ==
        "layer f: fields of [batch, 3] don't fit its input [batch, 8]: the width must be a multiple of dim");
  CHECK(CreateError({e, "name: 'f' dot_interaction { dim: 8 }"}, schema) ==
        "layer f: fields of [batch, 8] don't fit its input [batch, 8]: the width must be dim times at least 2");
  CHECK(CreateError({e, "name: 's' inputs: ['e', 'dense'] sum {}"}, schema) ==
        "layer s: its inputs must have one shape, but input 0 is [batch, 8] and input 1 is [batch, 3]");
  CHECK(CreateError({e, "name: 'x' inputs: ['e', 'dense'] cross {}"}, schema) ==
        "layer x: its inputs x0 [batch, 8] and x [batch, 3] must have one shape");
  CHECK(CreateError({e, "name: 'x' inputs: ['e', 'e'] cross { rank: 8 }"}, schema) ==
        "layer x: rank: 8, but must be below the width of its input [batch, 8]");
  CHECK(CreateError({e, "name: 'x' cross {}"}, schema) == "layer x: needs 2 inputs, but has 1");
  CHECK(CreateError({e, "name: 'n' inputs: [] layer_norm {}", "name: 'l' inputs: ['n', 'e'] linear { units: 1 }"},
                    schema) == "layer l: needs 1 input, but has 2");
  CHECK(CreateError({e, "name: 'l' linear {}"}, schema) == "layer l: units: 0, but must be at least 1");
  CHECK(CreateError({"name: 'l' linear { units: 4000000000 }", "name: 'm' linear { units: 1000 }"}, schema) ==
        "layer m: a weight of shape [4000000000, 1000] has more than 2^38 values");
  CHECK(CreateError({"name: 'e' embedding { slots: 's0' }"}, schema) == "layer e: dim: 0, but must be at least 1");
  CHECK(CreateError({"name: 'd' dropout { rate: 1 }"}, schema) == "layer d: rate: 1, but must be in [0, 1)");
}

TEST_CASE("Graph: errors name the layer that is wired wrongly", "[unit]") {
  const FeatureSchema schema = MakeTestSchema(2, 3);
  const std::string e = "name: 'e' embedding { dim: 4 }";
  CHECK(CreateError({e, "name: 'l' inputs: 'm' linear { units: 1 }"}, schema) ==
        "layer l: its input m is no earlier layer");
  CHECK(CreateError({e, "name: 'e' linear { units: 1 }"}, schema) == "layer e: there is an earlier layer of this name");
  CHECK(CreateError({"name: 'dense' linear { units: 1 }"}, schema) ==
        "layer 0: name: \"dense\", but must be neither empty nor \"dense\"");
  CHECK(CreateError({e, "name: 'l' inputs: 'dense' linear { units: 1 }"}, schema) ==
        "layer e: no later layer uses its output");
  CHECK(CreateError({"name: 'e' inputs: 'dense' embedding { dim: 1 }"}, schema) ==
        "layer e: needs 0 inputs, but has 1");
  CHECK(CreateError({"name: 'e' embedding { dim: 1 slots: 'age' }"}, schema) == "layer e: the data has no slot age");
  CHECK(CreateError({"name: 'e' embedding { dim: 1 slots: ['s1', 's1'] }"}, schema) ==
        "layer e: slot s1 is listed twice");
  CHECK(
      CreateError({"name: 'a' embedding { dim: 1 table: 't' }", "name: 'b' embedding { dim: 2 table: 't' }"}, schema) ==
      "layer b: its rows of table t have dim 2 and init 0, but those of layer a have dim 1 and init 0");
  CHECK(CreateError({e}, MakeTestSchema(0, 3)) == "layer e: it looks up slots, but the data has none");
  CHECK(CreateError({"name: 'q'"}, schema) ==
        "layer q: has no kind; one of embedding, linear, activation, fm, dot_interaction, cross, concat, sum, dropout, "
        "layer_norm, factorization is needed");
}

TEST_CASE("Labels out of range are errors that name record and bound", "[unit]") {
  FeatureSchema schema = MakeTestSchema(0, 3);
  const std::string identity = "name: 'a' inputs: 'dense' activation { function: LINEAR }";
  BatchBuilder builder(schema);
  builder.Add(3, {}, {1, 2, 3});
  builder.AddLabels({1, 7});
  builder.batch()->split = 5;
  auto error = [&](const Job& job) {
    return std::string(MakeModel(job, schema).Run(*builder.batch(), true).status().message());
  };
  CHECK(error(LayersJob({"name: 'o' linear { units: 1 }"}, Model::BINARY_CROSS_ENTROPY)) ==
        "label of record 0 of split 5: 3, but binary_cross_entropy needs a label in [0, 1]");
  CHECK(error(LayersJob({identity}, Model::SOFTMAX_CROSS_ENTROPY, 3)) ==
        "label of record 0 of split 5: 3, but softmax_cross_entropy needs a class in [0, 3)");
  schema.set_label_kind(FeatureSchema::MULTI_LABEL);
  CHECK(error(LayersJob({identity}, Model::MULTI_LABEL_BCE, 3)) ==
        "label of record 0 of split 5: 7, but multi_label_bce needs ids in [0, 3)");
}

}  // namespace
}  // namespace shoal
