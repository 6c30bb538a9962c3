// Adds a batch's predictions to metric sums.
#ifndef SHOAL_WORKER_MODEL_METRICS_H_
#define SHOAL_WORKER_MODEL_METRICS_H_

#include "base/metrics.h"
#include "proto/job.pb.h"
#include "worker/data/batch.h"
#include "worker/model/model.h"

namespace shoal {

// REQUIRES: result.predictions holds batch.rows * outputs values. `exact_auc` also keeps every score.
void AddBatch(const Batch& batch, const StepResult& result, Model::Loss loss, uint32_t outputs, bool exact_auc,
              MetricSums* sums);

}  // namespace shoal

#endif  // SHOAL_WORKER_MODEL_METRICS_H_
