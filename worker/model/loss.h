// Losses: from the last layer's output to predictions, loss and the gradient that starts the backward pass.
#ifndef SHOAL_WORKER_MODEL_LOSS_H_
#define SHOAL_WORKER_MODEL_LOSS_H_

#include "absl/status/statusor.h"
#include "kernels/device.h"
#include "proto/job.pb.h"
#include "worker/data/batch.h"

namespace shoal {

// Of rows [first_row, first_row + logits.rows) of the batch. Writes `predictions` (shape of `logits`): probabilities,
// or values for squared error. With gradient.data also writes d loss / d logits. Returns the loss summed over these
// rows, natural logarithms:
//   binary_cross_entropy   -y log p - (1 - y) log(1 - p), y in [0, 1]
//   softmax_cross_entropy  -log p[label]
//   multi_label_bce        binary cross entropy summed over all labels
//   squared_error          (prediction - y)^2 / 2
// An error names record, label and bound when a label is out of range.
absl::StatusOr<double> ComputeLoss(Model::Loss loss, const Batch& batch, size_t first_row, ConstMatrix logits,
                                   Matrix predictions, Matrix gradient);

}  // namespace shoal

#endif  // SHOAL_WORKER_MODEL_LOSS_H_
