// Evaluation and prediction with the model of a checkpoint, in one process and without a cluster.
#ifndef SHOAL_LOCAL_INFERENCE_H_
#define SHOAL_LOCAL_INFERENCE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/metrics.h"
#include "worker/data/labels.h"

namespace shoal {

struct InferenceOptions {
  // One checkpoint, or a directory of checkpoints, whose newest is taken.
  std::string checkpoint;
  // Paths or globs that replace the job's data.eval; empty: the job's own.
  std::vector<std::string> data;
  // "a.b=c", applied to the checkpoint's job. Those that change the model's tables or features are refused.
  std::vector<std::string> overrides;
  // PredictCheckpoint: kAbsent when the inputs have no labels.
  Labels labels = Labels::kPresent;
};

struct InferenceResult {
  std::string job;         // name
  std::string checkpoint;  // directory that was read
  MetricSums metrics;
  uint64_t bad_records = 0;  // skipped; at most the job's data.max_bad_records
  double seconds = 0;        // reading the input and computing, without loading
};

// Measures the model on its evaluation inputs, in file order.
absl::StatusOr<InferenceResult> EvaluateCheckpoint(const InferenceOptions& options);

// Writes one line per record, in record order, to `output` ("-": standard output): the record's id (data.columns.id,
// else its number) and, tab separated, the probability (squared error: the value); of models with several outputs the
// five most probable labels as "label:probability", separated by blanks. A file appears under its name only when
// complete.
absl::StatusOr<InferenceResult> PredictCheckpoint(const InferenceOptions& options, const std::string& output);

}  // namespace shoal

#endif  // SHOAL_LOCAL_INFERENCE_H_
