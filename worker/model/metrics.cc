#include "worker/model/metrics.h"

#include <algorithm>

#include "base/check.h"

namespace shoal {
namespace {

constexpr size_t kDepth = 5;  // the deepest of precision at 1, 3 and 5

void AddBinary(const Batch& batch, absl::Span<const float> predictions, bool exact_auc, MetricSums* sums) {
  for (uint32_t r = 0; r < batch.rows; ++r) {
    const float p = predictions[r];
    const bool positive = batch.labels[r] >= 0.5f;
    sums->label += batch.labels[r];
    sums->prediction += p;
    sums->correct += p >= 0 && (p >= 0.5f) == positive;  // p >= 0: a NaN is never right
    sums->auc.Add(p, positive);
    if (exact_auc) sums->scored.emplace_back(p, positive);
  }
  sums->classified += batch.rows;
}

void AddClasses(const Batch& batch, absl::Span<const float> predictions, uint32_t outputs, MetricSums* sums) {
  for (uint32_t r = 0; r < batch.rows; ++r) {
    const float* p = predictions.data() + size_t{r} * outputs;
    const size_t best = static_cast<size_t>(std::max_element(p, p + outputs) - p);
    sums->correct += static_cast<float>(best) == batch.labels[r];
  }
  sums->classified += batch.rows;
}

// Ids of the highest values, best first, ties by the lower id; returns how many there are.
size_t TopIds(const float* p, uint32_t outputs, uint32_t (&top)[kDepth]) {
  size_t count = 0;
  for (uint32_t id = 0; id < outputs; ++id) {
    if (count == kDepth && !(p[id] > p[top[kDepth - 1]])) continue;
    size_t at = count < kDepth ? count++ : kDepth - 1;
    for (; at > 0 && p[id] > p[top[at - 1]]; --at) top[at] = top[at - 1];
    top[at] = id;
  }
  return count;
}

void AddRanking(const Batch& batch, absl::Span<const float> predictions, uint32_t outputs, MetricSums* sums) {
  uint32_t top[kDepth];
  for (uint32_t r = 0; r < batch.rows; ++r) {
    const size_t count = TopIds(predictions.data() + size_t{r} * outputs, outputs, top);
    const auto begin = batch.label_ids.begin() + batch.label_offsets[r];
    const auto end = batch.label_ids.begin() + batch.label_offsets[r + 1];
    size_t hits = 0;
    for (size_t k = 0; k < kDepth; ++k) {
      if (k < count && std::find(begin, end, top[k]) != end) ++hits;
      if (k % 2 == 0) sums->precision_at[k / 2] += static_cast<double>(hits) / static_cast<double>(k + 1);
    }
  }
  sums->ranked += batch.rows;
}

void AddRegression(const Batch& batch, absl::Span<const float> predictions, MetricSums* sums) {
  for (uint32_t r = 0; r < batch.rows; ++r) {
    const double error = static_cast<double>(predictions[r]) - batch.labels[r];
    sums->label += batch.labels[r];
    sums->prediction += predictions[r];
    sums->squared_error += error * error;
  }
}

}  // namespace

void AddBatch(const Batch& batch, const StepResult& result, Model::Loss loss, uint32_t outputs, bool exact_auc,
              MetricSums* sums) {
  SHOAL_CHECK(result.predictions.size() == size_t{batch.rows} * outputs);
  sums->examples += batch.rows;
  sums->loss += result.loss_sum;
  switch (loss) {
    case Model::SOFTMAX_CROSS_ENTROPY:
      return AddClasses(batch, result.predictions, outputs, sums);
    case Model::MULTI_LABEL_BCE:
      return AddRanking(batch, result.predictions, outputs, sums);
    case Model::SQUARED_ERROR:
      return AddRegression(batch, result.predictions, sums);
    default:
      return AddBinary(batch, result.predictions, exact_auc, sums);
  }
}

}  // namespace shoal
