// Batches that go through the layers in parts.
#include <algorithm>
#include <catch2/catch.hpp>

#include "worker/model/random_model.h"

namespace shoal {
namespace {

// Rows [begin, end) as a batch of their own.
Batch RowsOf(const Batch& batch, uint32_t begin, uint32_t end) {
  Batch part = batch;
  part.rows = end - begin;
  const auto cut = [](auto* values, size_t first, size_t last) {
    *values = {values->begin() + first, values->begin() + last};
  };
  cut(&part.records, begin, end);
  cut(&part.labels, begin, end);
  cut(&part.dense, begin * batch.dense_dim, end * batch.dense_dim);
  const auto cut_bags = [&](std::vector<uint32_t>* offsets) {
    cut(offsets, begin, end + 1);
    const uint32_t first = offsets->front(), last = offsets->back();
    for (uint32_t& offset : *offsets) offset -= first;
    return std::make_pair(first, last);
  };
  for (SlotColumn& slot : part.slots) {
    const auto [first, last] = cut_bags(&slot.offsets);
    cut(&slot.keys, first, last);
    if (!slot.weights.empty()) cut(&slot.weights, first, last);
  }
  if (part.label_offsets.size() > batch.rows) {
    const auto [first, last] = cut_bags(&part.label_offsets);
    cut(&part.label_ids, first, last);
  }
  return part;
}

// By tensor, then by table and key, in double.
using GradientSums = std::map<std::pair<size_t, uint64_t>, std::vector<double>>;

void AddGradients(TestModel* model, GradientSums* sums) {
  const auto add = [&](size_t which, uint64_t key, const float* from, size_t n) {
    std::vector<double>& to = (*sums)[{which, key}];
    to.resize(n);
    for (size_t i = 0; i < n; ++i) to[i] += from[i];
  };
  for (size_t t = 0; t < model->tensor_gradients.size(); ++t) {
    add(t, 0, model->tensor_gradients[t].data(), model->tensor_gradients[t].size());
  }
  for (size_t t = 0; t < model->row_gradients.size(); ++t) {
    const KeyGroup& group = model->groups()[model->graph().group_of_table()[t]];
    const size_t dim = model->graph().spec().tables(static_cast<int>(t)).dim();
    for (size_t k = 0; k < group.keys.size(); ++k) add(1000 + t, group.keys[k], &model->row_gradients[t][k * dim], dim);
  }
}

TEST_CASE("A batch that goes through in parts: the predictions, loss and gradients of the parts", "[unit]") {
  // So wide that 512 rows go through at once.
  constexpr uint32_t kAtOnce = 512;
  const uint32_t last_part = GENERATE(76, 518);  // as few rows more as 6 are no part of their own
  const uint32_t rows = kAtOnce + (last_part > kAtOnce ? 0 : kAtOnce) + last_part;
  const auto loss =
      GENERATE(Model::BINARY_CROSS_ENTROPY, Model::SOFTMAX_CROSS_ENTROPY, Model::MULTI_LABEL_BCE, Model::SQUARED_ERROR);
  const auto precision = GENERATE(F32, BF16);
  const bool single = GENERATE(false, true);
  const uint32_t outputs = loss == Model::SOFTMAX_CROSS_ENTROPY || loss == Model::MULTI_LABEL_BCE ? 3 : 1;
  FeatureSchema schema = MakeTestSchema(3, 5);
  if (loss == Model::MULTI_LABEL_BCE) schema.set_label_kind(FeatureSchema::MULTI_LABEL);
  Job job = LayersJob(
      {"name: 'e' embedding { dim: 17 }", "name: 'f' factorization { dim: 3 }", "name: 'n' inputs: 'e' layer_norm {}",
       "name: 'x' inputs: ['n', 'n'] cross {}", "name: 'y' inputs: ['n', 'x'] cross { rank: 2 }",
       "name: 'c' inputs: ['y', 'f', 'dense'] concat {}", "name: 'h' linear { units: 400 bias: true }",
       "name: 'a' activation {}", "name: 'd' dropout { rate: 0.3 }", "name: 'g' linear { units: 100 bias: true }",
       "name: 'out' linear { units: " + std::to_string(outputs) + " bias: true }"},
      loss, outputs);
  job.set_precision(precision);
  Batch batch = RandomBatch(schema, loss, outputs, rows, 5);
  if (single) {
    for (SlotColumn& slot : batch.slots) {
      slot.keys.assign(rows, 0);
      slot.weights.clear();
      for (uint32_t r = 0; r < rows; ++r) slot.keys[r] = r % 7, slot.offsets[r + 1] = r + 1;
    }
  }
  TestModel whole = MakeModel(job, schema), parts = MakeModel(job, schema);
  const absl::StatusOr<StepResult> result = whole.Run(batch, true);
  REQUIRE(result.status() == absl::OkStatus());
  GradientSums sums, expected;
  AddGradients(&whole, &sums);
  double loss_sum = 0;
  for (uint32_t begin = 0, end; begin < rows; begin = end) {
    end = begin + last_part == rows ? rows : begin + kAtOnce;
    const absl::StatusOr<StepResult> part = parts.Run(RowsOf(batch, begin, end), true);
    REQUIRE(part.status() == absl::OkStatus());
    loss_sum += part->loss_sum;
    CHECK(part->predictions == result->predictions.subspan(begin * outputs, (end - begin) * outputs));
    AddGradients(&parts, &expected);
  }
  CHECK(result->loss_sum == Approx(loss_sum));
  REQUIRE(sums.size() == expected.size());
  for (const auto& [where, values] : expected) {
    double largest = 0;
    for (double value : values) largest = std::max(largest, std::fabs(value));
    // Three sums instead of one: some roundings of the largest value, and of those that cancelled on the way to it.
    for (size_t i = 0; i < values.size(); ++i) {
      REQUIRE(sums.at(where)[i] == Approx(values[i]).margin(1e-4 * (1 + largest)));
    }
  }
  // Evaluation goes the same way.
  const std::vector<float> all = [&] {
    const absl::StatusOr<StepResult> evaluated = whole.Run(batch, false);
    REQUIRE(evaluated.ok());
    return std::vector<float>(evaluated->predictions.begin(), evaluated->predictions.end());
  }();
  const absl::StatusOr<StepResult> last = parts.Run(RowsOf(batch, rows - last_part, rows), false);
  REQUIRE(last.ok());
  CHECK(std::equal(last->predictions.begin(), last->predictions.end(), all.begin() + (rows - last_part) * outputs));
}

}  // namespace
}  // namespace shoal
