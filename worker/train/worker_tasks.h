// The scheduler's tasks that workers do: looking at inputs and model.
#ifndef SHOAL_WORKER_TRAIN_WORKER_TASKS_H_
#define SHOAL_WORKER_TRAIN_WORKER_TASKS_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/job.pb.h"
#include "proto/plan.pb.h"

namespace shoal {

// Plans the inputs, derives the schema, builds the model once to learn its tables and tensors.
absl::StatusOr<JobPlan> PlanJob(const Job& job);

// The model's tables and tensors; INVALID_ARGUMENT when no lane of this machine could hold them.
absl::StatusOr<ModelSpec> PlanModel(const Job& job, const FeatureSchema& schema);

// Adds the sizes on disk of all files that an input stands for to `bytes`.
absl::StatusOr<uint64_t> AddFileBytes(const Input& input, uint64_t bytes);

// Whether this machine can read every input of the job; names the first file that it cannot read.
absl::Status CheckInputs(const Job& job);

}  // namespace shoal

#endif  // SHOAL_WORKER_TRAIN_WORKER_TASKS_H_
