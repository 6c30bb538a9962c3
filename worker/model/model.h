// A model: a layer graph built from the job file, with its loss. Shared by all lanes; what a lane writes lives in its
// own ModelWorkspace.
#ifndef SHOAL_WORKER_MODEL_MODEL_H_
#define SHOAL_WORKER_MODEL_MODEL_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "proto/job.pb.h"
#include "proto/plan.pb.h"
#include "worker/data/batch.h"
#include "worker/routing/key_group.h"

namespace shoal {

// Everything one forward (and backward) pass reads and writes. Pointers stay owned by the caller.
struct StepArgs {
  const Batch* batch = nullptr;
  absl::Span<const KeyGroup> groups;     // as ModelGraph::groups() orders them
  std::vector<const float*> rows;        // by table: |keys of its group| x dim
  std::vector<const float*> tensors;     // by tensor
  std::vector<float*> row_gradients;     // like rows; overwritten with sums over the batch. Training only.
  std::vector<float*> tensor_gradients;  // like tensors; overwritten with sums over the batch. Training only.
  uint64_t seed = 0;                     // of the job: dropout
};

struct StepResult {
  double loss_sum = 0;  // over the batch's rows (binary: natural log)
  // rows x outputs: probability (BCE losses, softmax) or value (squared error); valid until the next call.
  absl::Span<const float> predictions;
};

// Memory of one lane: activations and their gradients. Not thread-safe.
class ModelWorkspace {
 public:
  virtual ~ModelWorkspace() = default;
};

// Thread-safe after Create.
class ModelGraph {
 public:
  virtual ~ModelGraph() = default;
  // Errors name the layer and both shapes.
  static absl::StatusOr<std::unique_ptr<ModelGraph>> Create(const Job& job, const FeatureSchema& schema);

  // Tables and tensors, in the order of StepArgs.
  virtual const ModelSpec& spec() const = 0;
  // By group: the slots (schema indices, ascending) whose keys form it.
  virtual const std::vector<std::vector<uint32_t>>& groups() const = 0;
  // By table: its group.
  virtual const std::vector<uint32_t>& group_of_table() const = 0;
  // The loss that was chosen (never DEFAULT) and the number of outputs.
  virtual Model::Loss loss() const = 0;
  virtual uint32_t outputs() const = 0;

  virtual std::unique_ptr<ModelWorkspace> NewWorkspace() const = 0;
  // Forward, loss, backward. Every gradient is a sum over the rows of the batch, in record order: equal inputs give
  // equal bits. A batch of zero rows gives zero gradients.
  virtual absl::StatusOr<StepResult> Train(const StepArgs& args, ModelWorkspace* workspace) const = 0;
  // Forward and loss without dropout; gradients are not touched.
  virtual absl::StatusOr<StepResult> Evaluate(const StepArgs& args, ModelWorkspace* workspace) const = 0;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_MODEL_MODEL_H_
