// The counting model: proves that every record's gradient is applied exactly once. Its "gradients" are small integers
// of the record, so that with sgd at rate -1 and reduce: sum every value becomes an exact integer sum.
#ifndef SHOAL_WORKER_MODEL_COUNTING_H_
#define SHOAL_WORKER_MODEL_COUNTING_H_

#include <memory>

#include "absl/status/statusor.h"
#include "worker/model/model.h"

namespace shoal {

// Hash of the keys of row `row`: the same in whatever order they stand, different slots told apart.
uint64_t RecordContent(const Batch& batch, uint32_t row);

// What a record of this content adds to column `column` of each of its keys' rows (per occurrence) and, once, to the
// dense tensor: 1 in column 0, a number in 0..15 in the others.
float CountingValue(uint64_t content, uint32_t column);

// One table "count" over all slots and one tensor "count", both with model.embedding_dim columns (at least 1), from
// zero. Predictions are 1/2, the loss is 0.
absl::StatusOr<std::unique_ptr<ModelGraph>> MakeCountingModel(const Job& job, const FeatureSchema& schema);

}  // namespace shoal

#endif  // SHOAL_WORKER_MODEL_COUNTING_H_
