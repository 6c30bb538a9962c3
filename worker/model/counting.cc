#include "worker/model/counting.h"

#include <algorithm>
#include <utility>

#include "base/random.h"
#include "base/status_macros.h"
#include "worker/model/presets.h"

namespace shoal {
namespace {

class CountingWorkspace : public ModelWorkspace {
 public:
  std::vector<float> predictions;
  std::vector<float> values;  // rows x dim: what each record adds
};

// Thread-safe: nothing changes after construction.
class CountingModel : public ModelGraph {
 public:
  CountingModel(uint32_t dim, uint32_t slots, Model::Loss loss, uint32_t outputs)
      : dim_(dim), loss_(loss), outputs_(outputs) {
    if (slots > 0) {
      TableSpec* table = spec_.add_tables();
      table->set_name("count");
      table->set_dim(dim);
      groups_.resize(1);
      for (uint32_t s = 0; s < slots; ++s) groups_[0].push_back(s);
      group_of_table_ = {0};
    }
    TensorSpec* tensor = spec_.add_tensors();
    tensor->set_name("records");
    tensor->add_shape(dim);
    tensor->set_init(TensorSpec::ZERO);
  }

  const ModelSpec& spec() const override { return spec_; }
  const std::vector<std::vector<uint32_t>>& groups() const override { return groups_; }
  const std::vector<uint32_t>& group_of_table() const override { return group_of_table_; }
  Model::Loss loss() const override { return loss_; }
  uint32_t outputs() const override { return outputs_; }
  std::unique_ptr<ModelWorkspace> NewWorkspace() const override { return std::make_unique<CountingWorkspace>(); }

  absl::StatusOr<StepResult> Train(const StepArgs& args, ModelWorkspace* workspace) const override {
    const Batch& batch = *args.batch;
    std::vector<float>& values = static_cast<CountingWorkspace*>(workspace)->values;
    values.resize(size_t{batch.rows} * dim_);
    std::fill_n(args.tensor_gradients[0], dim_, 0.0f);
    for (uint32_t r = 0; r < batch.rows; ++r) {
      const uint64_t content = RecordContent(batch, r);
      for (uint32_t c = 0; c < dim_; ++c) {
        values[size_t{r} * dim_ + c] = CountingValue(content, c);
        args.tensor_gradients[0][c] += values[size_t{r} * dim_ + c];
      }
    }
    if (!groups_.empty()) AddToRows(batch, args.groups[0], values, args.row_gradients[0]);
    return Evaluate(args, workspace);
  }

  absl::StatusOr<StepResult> Evaluate(const StepArgs& args, ModelWorkspace* workspace) const override {
    std::vector<float>& predictions = static_cast<CountingWorkspace*>(workspace)->predictions;
    predictions.assign(size_t{args.batch->rows} * outputs_, 0.5f);
    StepResult result;
    result.predictions = predictions;
    return result;
  }

 private:
  void AddToRows(const Batch& batch, const KeyGroup& group, const std::vector<float>& values, float* gradients) const {
    std::fill_n(gradients, group.keys.size() * dim_, 0.0f);
    for (size_t s = 0; s < batch.slots.size(); ++s) {
      const SlotColumn& slot = batch.slots[s];
      for (uint32_t r = 0; r < batch.rows; ++r) {
        for (uint32_t i = slot.offsets[r]; i < slot.offsets[r + 1]; ++i) {
          float* to = gradients + size_t{group.inverse[s][i]} * dim_;
          for (uint32_t c = 0; c < dim_; ++c) to[c] += values[size_t{r} * dim_ + c];
        }
      }
    }
  }

  const uint32_t dim_;
  const Model::Loss loss_;
  const uint32_t outputs_;
  ModelSpec spec_;
  std::vector<std::vector<uint32_t>> groups_;
  std::vector<uint32_t> group_of_table_;
};

}  // namespace

uint64_t RecordContent(const Batch& batch, uint32_t row) {
  uint64_t content = 0;
  for (size_t s = 0; s < batch.slots.size(); ++s) {
    const SlotColumn& slot = batch.slots[s];
    for (uint32_t i = slot.offsets[row]; i < slot.offsets[row + 1]; ++i) {
      content += HashCoordinates({s, slot.keys[i]});
    }
  }
  return content;
}

float CountingValue(uint64_t content, uint32_t column) {
  return column == 0 ? 1.0f : static_cast<float>(HashCoordinates({content, column}) & 15);
}

absl::StatusOr<std::unique_ptr<ModelGraph>> MakeCountingModel(const Job& job, const FeatureSchema& schema) {
  SHOAL_ASSIGN_OR_RETURN(const Model::Loss loss, ResolveLoss(job, schema));
  SHOAL_ASSIGN_OR_RETURN(const uint32_t outputs, ResolveOutputs(job, schema));
  const uint32_t dim = std::max<uint32_t>(1, job.model().embedding_dim());
  return std::make_unique<CountingModel>(dim, schema.slots_size(), loss, outputs);
}

}  // namespace shoal
