#include "worker/model/loss.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

namespace shoal {
namespace {

// log(1 + exp(z)) without overflow.
float Softplus(float z) { return std::max(z, 0.0f) + std::log1p(std::exp(-std::fabs(z))); }

float Sigmoid(float z) {
  const float e = std::exp(-std::fabs(z));
  return z >= 0 ? 1 / (1 + e) : e / (1 + e);
}

template <typename Value>
absl::Status LabelError(const Batch& batch, size_t row, Value label, const std::string& bound) {
  return absl::InvalidArgumentError(
      absl::StrCat("label of record ", batch.records[row], " of split ", batch.split, ": ", label, ", but ", bound));
}

absl::StatusOr<double> Binary(const Batch& batch, size_t first, ConstMatrix logits, Matrix predictions,
                              Matrix gradient) {
  double sum = 0;
  for (size_t r = 0; r < logits.rows; ++r) {
    const float z = logits.data[r], y = batch.labels[first + r];
    if (!(y >= 0 && y <= 1)) return LabelError(batch, first + r, y, "binary_cross_entropy needs a label in [0, 1]");
    const float p = Sigmoid(z);
    predictions.data[r] = p;
    sum += Softplus(z) - z * y;
    if (gradient.data != nullptr) gradient.data[r] = p - y;
  }
  return sum;
}

absl::StatusOr<double> Softmax(const Batch& batch, size_t first, ConstMatrix logits, Matrix predictions,
                               Matrix gradient) {
  double sum = 0;
  const size_t classes = logits.columns;
  for (size_t r = 0; r < logits.rows; ++r) {
    const float y = batch.labels[first + r];
    if (!(y >= 0 && y < static_cast<float>(classes) && y == std::floor(y))) {
      return LabelError(batch, first + r, y, absl::StrCat("softmax_cross_entropy needs a class in [0, ", classes, ")"));
    }
    const size_t label = static_cast<size_t>(y);
    const float* z = logits.row(r);
    float* p = predictions.row(r);
    const float max = *std::max_element(z, z + classes);
    double total = 0;
    for (size_t c = 0; c < classes; ++c) {
      p[c] = std::exp(z[c] - max);
      total += p[c];
    }
    sum += std::log(total) - (static_cast<double>(z[label]) - max);
    const float scale = static_cast<float>(1 / total);
    for (size_t c = 0; c < classes; ++c) p[c] *= scale;
    if (gradient.data == nullptr) continue;
    std::copy_n(p, classes, gradient.row(r));
    gradient.row(r)[label] -= 1;
  }
  return sum;
}

absl::StatusOr<double> MultiLabel(const Batch& batch, size_t first, ConstMatrix logits, Matrix predictions,
                                  Matrix gradient) {
  double sum = 0;
  for (size_t r = 0; r < logits.rows; ++r) {
    const float* z = logits.row(r);
    float* p = predictions.row(r);
    for (size_t c = 0; c < logits.columns; ++c) {
      p[c] = Sigmoid(z[c]);
      sum += Softplus(z[c]);
    }
    if (gradient.data != nullptr) std::copy_n(p, logits.columns, gradient.row(r));
    for (uint32_t i = batch.label_offsets[first + r]; i < batch.label_offsets[first + r + 1]; ++i) {
      const uint32_t label = batch.label_ids[i];
      if (label >= logits.columns) {
        return LabelError(batch, first + r, label,
                          absl::StrCat("multi_label_bce needs ids in [0, ", logits.columns, ")"));
      }
      sum -= z[label];
      if (gradient.data != nullptr) gradient.row(r)[label] -= 1;
    }
  }
  return sum;
}

absl::StatusOr<double> SquaredError(const Batch& batch, size_t first, ConstMatrix logits, Matrix predictions,
                                    Matrix gradient) {
  double sum = 0;
  for (size_t r = 0; r < logits.rows; ++r) {
    const float error = logits.data[r] - batch.labels[first + r];
    predictions.data[r] = logits.data[r];
    sum += 0.5 * static_cast<double>(error) * error;
    if (gradient.data != nullptr) gradient.data[r] = error;
  }
  return sum;
}

}  // namespace

absl::StatusOr<double> ComputeLoss(Model::Loss loss, const Batch& batch, size_t first_row, ConstMatrix logits,
                                   Matrix predictions, Matrix gradient) {
  switch (loss) {
    case Model::SOFTMAX_CROSS_ENTROPY:
      return Softmax(batch, first_row, logits, predictions, gradient);
    case Model::MULTI_LABEL_BCE:
      return MultiLabel(batch, first_row, logits, predictions, gradient);
    case Model::SQUARED_ERROR:
      return SquaredError(batch, first_row, logits, predictions, gradient);
    default:
      return Binary(batch, first_row, logits, predictions, gradient);
  }
}

}  // namespace shoal
