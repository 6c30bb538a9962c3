#include "worker/model/metrics.h"

#include <catch2/catch.hpp>
#include <cmath>

namespace shoal {
namespace {

Batch LabelBatch(const std::vector<float>& labels) {
  Batch batch;
  batch.Clear();
  batch.rows = static_cast<uint32_t>(labels.size());
  batch.labels = labels;
  return batch;
}

MetricSums Add(const Batch& batch, const std::vector<float>& predictions, Model::Loss loss, uint32_t outputs,
               bool exact_auc = false) {
  MetricSums sums;
  StepResult result;
  result.loss_sum = 1.5;
  result.predictions = predictions;
  AddBatch(batch, result, loss, outputs, exact_auc, &sums);
  return sums;
}

TEST_CASE("AddBatch: binary", "[unit]") {
  const MetricSums sums =
      Add(LabelBatch({0, 1, 1, 0, 0}), {0.25f, 0.5f, 0.125f, 0.75f, NAN}, Model::BINARY_CROSS_ENTROPY, 1, true);
  CHECK(sums.examples == 5);
  CHECK(sums.loss == 1.5);
  CHECK(sums.label == 2);
  CHECK(sums.correct == 2);
  CHECK(sums.classified == 5);
  CHECK(sums.auc.positives() == 2);
  CHECK(sums.auc.negatives() == 2);
  CHECK(sums.auc.nan_count() == 1);
  CHECK(sums.scored.size() == 5);
  CHECK(sums.auc.Auc() == 0.25);
  CHECK(Summarize(sums).auc == 0.25);
  CHECK(Add(LabelBatch({0, 1}), {0.25f, 0.5f}, Model::BINARY_CROSS_ENTROPY, 1).scored.empty());
}

TEST_CASE("AddBatch: classes, a tie goes to the lower one", "[unit]") {
  const MetricSums sums = Add(LabelBatch({1, 2, 0}), {0.1f, 0.7f, 0.2f, 0.5f, 0.2f, 0.3f, 0.4f, 0.4f, 0.2f},
                              Model::SOFTMAX_CROSS_ENTROPY, 3);
  CHECK(sums.correct == 2);
  CHECK(sums.classified == 3);
  CHECK(Summarize(sums).accuracy == Approx(2.0 / 3));
  CHECK(std::isnan(Summarize(sums).auc));
}

TEST_CASE("AddBatch: precision at 1, 3 and 5, ties by the lower id", "[unit]") {
  Batch batch = LabelBatch({});
  batch.rows = 3;
  batch.label_offsets = {0, 2, 3, 3};
  batch.label_ids = {6, 1, 0};
  // Row 0 ranks 1 3 0 2 4 | 5 6; row 1 ranks 0 1 2 3 4 (all equal); row 2 has no labels.
  const std::vector<float> predictions = {0.3f, 0.9f, 0.2f, 0.8f, 0.2f, 0.2f, 0.1f,  //
                                          0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f, 0.5f,  //
                                          0.1f, 0.2f, 0.3f, 0.4f, 0.5f, 0.6f, 0.7f};
  MetricSums sums = Add(batch, predictions, Model::MULTI_LABEL_BCE, 7);
  CHECK(sums.ranked == 3);
  CHECK(sums.precision_at[0] == 2);
  CHECK(sums.precision_at[1] == Approx(2.0 / 3));
  CHECK(sums.precision_at[2] == Approx(2.0 / 5));
  batch.label_ids = {5, 4, 5};
  sums = Add(batch, predictions, Model::MULTI_LABEL_BCE, 7);
  CHECK(sums.precision_at[0] == 0);
  CHECK(sums.precision_at[2] == Approx(1.0 / 5));
}

TEST_CASE("AddBatch: fewer outputs than the depth still divides by it", "[unit]") {
  Batch batch = LabelBatch({});
  batch.rows = 1;
  batch.label_offsets = {0, 2};
  batch.label_ids = {0, 1};
  const MetricSums sums = Add(batch, {0.1f, 0.9f}, Model::MULTI_LABEL_BCE, 2);
  CHECK(sums.precision_at[0] == 1);
  CHECK(sums.precision_at[1] == Approx(2.0 / 3));
  CHECK(sums.precision_at[2] == Approx(2.0 / 5));
}

TEST_CASE("AddBatch: regression", "[unit]") {
  const MetricSums sums = Add(LabelBatch({1, 2}), {2, 4}, Model::SQUARED_ERROR, 1);
  CHECK(sums.squared_error == 5);
  CHECK(Summarize(sums).rmse == Approx(std::sqrt(2.5)));
  CHECK(Summarize(sums).calibration == 2);
  CHECK(std::isnan(Summarize(sums).logloss));
}

TEST_CASE("AddBatch: an empty batch changes nothing but is counted as 0 examples", "[unit]") {
  const MetricSums sums = Add(LabelBatch({}), {}, Model::BINARY_CROSS_ENTROPY, 1);
  CHECK(sums.examples == 0);
  CHECK(std::isnan(Summarize(sums).auc));
}

}  // namespace
}  // namespace shoal
