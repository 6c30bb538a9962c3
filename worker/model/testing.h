// What tests of the model share: batches made by hand, parameters in memory, and a plain training loop.
#ifndef SHOAL_WORKER_MODEL_TESTING_H_
#define SHOAL_WORKER_MODEL_TESTING_H_

#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/random.h"
#include "worker/model/model.h"
#include "worker/routing/router.h"

namespace shoal {

// Appends records to a batch. Not thread-safe.
class BatchBuilder {
 public:
  explicit BatchBuilder(const FeatureSchema& schema) {
    batch_.slots.resize(schema.slots_size());
    batch_.dense_dim = schema.dense_size();
    batch_.Clear();
  }
  // One bag of keys per slot.
  void Add(float label, const std::vector<std::vector<uint64_t>>& bags, const std::vector<float>& dense) {
    batch_.labels.push_back(label);
    batch_.records.push_back(batch_.rows++);
    batch_.end = batch_.rows;
    for (size_t s = 0; s < batch_.slots.size(); ++s) {
      SlotColumn& slot = batch_.slots[s];
      slot.keys.insert(slot.keys.end(), bags[s].begin(), bags[s].end());
      slot.offsets.push_back(static_cast<uint32_t>(slot.keys.size()));
    }
    batch_.dense.insert(batch_.dense.end(), dense.begin(), dense.end());
  }
  void AddLabels(const std::vector<uint32_t>& ids) {
    batch_.label_ids.insert(batch_.label_ids.end(), ids.begin(), ids.end());
    batch_.label_offsets.push_back(static_cast<uint32_t>(batch_.label_ids.size()));
  }
  Batch* batch() { return &batch_; }

 private:
  Batch batch_;
};

inline FeatureSchema MakeTestSchema(int slots, int dense) {
  FeatureSchema schema;
  for (int s = 0; s < slots; ++s) schema.add_slots("s" + std::to_string(s));
  for (int d = 0; d < dense; ++d) schema.add_dense("d" + std::to_string(d));
  return schema;
}

// A model with its parameters in plain memory. Not thread-safe.
class TestModel {
 public:
  TestModel(std::unique_ptr<ModelGraph> graph, uint64_t seed) : graph_(std::move(graph)), seed_(seed) {
    workspace_ = graph_->NewWorkspace();
    for (const std::vector<uint32_t>& slots : graph_->groups()) routers_.emplace_back(slots, 4);
    groups_.resize(routers_.size());
    tables_.resize(graph_->spec().tables_size());
    rows_.resize(tables_.size());
    row_gradients.resize(tables_.size());
    Random random({seed, 1});
    for (const TensorSpec& spec : graph_->spec().tensors()) {
      size_t size = 1;
      for (uint64_t extent : spec.shape()) size *= extent;
      const double limit = spec.shape_size() == 2 ? std::sqrt(6.0 / (spec.shape(0) + spec.shape(1))) : 0;
      std::vector<float> tensor(size, spec.init() == TensorSpec::ONE ? 1.0f : 0.0f);
      for (float& v : tensor) {
        if (spec.init() == TensorSpec::GLOROT_UNIFORM) v = static_cast<float>((2 * random.Uniform() - 1) * limit);
      }
      tensors.push_back(tensor);
      tensor_gradients.emplace_back(size, 0.0f);
      tensor_squares_.emplace_back(size, 0.0f);
    }
  }

  const ModelGraph& graph() const { return *graph_; }
  const std::vector<KeyGroup>& groups() const { return groups_; }

  // The row of a key, new ones from the table's initial distribution, unless InitRows chose another.
  std::vector<float>& Row(size_t table, uint64_t key) {
    std::vector<float>& row = tables_[table][key];
    if (row.empty()) {
      const TableSpec& spec = graph_->spec().tables(static_cast<int>(table));
      Random random({seed_, 2, table, key});
      for (uint32_t d = 0; d < spec.dim(); ++d) {
        row.push_back(static_cast<float>(random.Normal() * (stddev_ < 0 ? spec.init_stddev() : stddev_)));
      }
      for (uint32_t d = 0; d < spec.dim(); ++d) row_squares_[{table, key}].push_back(0);
    }
    return row;
  }
  // New rows get this standard deviation, whatever their table says.
  void InitRows(double stddev) { stddev_ = stddev; }

  absl::StatusOr<StepResult> Run(const Batch& batch, bool train) {
    StepArgs args;
    args.batch = &batch;
    args.seed = seed_;
    for (size_t g = 0; g < groups_.size(); ++g) routers_[g].Route(batch, &groups_[g]);
    args.groups = groups_;
    for (size_t t = 0; t < tables_.size(); ++t) {
      rows_[t].clear();
      for (uint64_t key : groups_[graph_->group_of_table()[t]].keys) {
        const std::vector<float>& row = Row(t, key);
        rows_[t].insert(rows_[t].end(), row.begin(), row.end());
      }
      row_gradients[t].assign(rows_[t].size(), NAN);
      args.rows.push_back(rows_[t].data());
      args.row_gradients.push_back(row_gradients[t].data());
    }
    for (size_t t = 0; t < tensors.size(); ++t) {
      tensor_gradients[t].assign(tensors[t].size(), NAN);
      args.tensors.push_back(tensors[t].data());
      args.tensor_gradients.push_back(tensor_gradients[t].data());
    }
    return train ? graph_->Train(args, workspace_.get()) : graph_->Evaluate(args, workspace_.get());
  }

  // One Adagrad step on the mean gradient of the last Run(batch, true).
  void Step(const Batch& batch, float rate) {
    const float scale = 1.0f / static_cast<float>(batch.rows);
    for (size_t t = 0; t < tensors.size(); ++t) {
      for (size_t i = 0; i < tensors[t].size(); ++i) {
        Update(tensor_gradients[t][i] * scale, rate, &tensors[t][i], &tensor_squares_[t][i]);
      }
    }
    for (size_t t = 0; t < tables_.size(); ++t) {
      const std::vector<uint64_t>& keys = groups_[graph_->group_of_table()[t]].keys;
      for (size_t k = 0; k < keys.size(); ++k) {
        std::vector<float>& row = Row(t, keys[k]);
        std::vector<float>& squares = row_squares_[{t, keys[k]}];
        for (size_t d = 0; d < row.size(); ++d) {
          Update(row_gradients[t][k * row.size() + d] * scale, rate, &row[d], &squares[d]);
        }
      }
    }
  }

  std::vector<std::vector<float>> tensors;
  std::vector<std::vector<float>> tensor_gradients;
  std::vector<std::vector<float>> row_gradients;

 private:
  static void Update(float gradient, float rate, float* value, float* square) {
    *square += gradient * gradient;
    *value -= rate * gradient / (std::sqrt(*square) + 1e-6f);
  }

  std::unique_ptr<ModelGraph> graph_;
  const uint64_t seed_;
  double stddev_ = -1;
  std::unique_ptr<ModelWorkspace> workspace_;
  std::vector<Router> routers_;
  std::vector<KeyGroup> groups_;
  std::vector<std::map<uint64_t, std::vector<float>>> tables_;
  std::map<std::pair<size_t, uint64_t>, std::vector<float>> row_squares_;
  std::vector<std::vector<float>> rows_;
  std::vector<std::vector<float>> tensor_squares_;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_MODEL_TESTING_H_
