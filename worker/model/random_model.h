// For tests: models from layers that are written as text, and random batches for them.
#ifndef SHOAL_WORKER_MODEL_RANDOM_MODEL_H_
#define SHOAL_WORKER_MODEL_RANDOM_MODEL_H_

#include <google/protobuf/text_format.h>

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "worker/model/testing.h"

namespace shoal {

// A job whose layers are written as text protos, with squared error unless `loss` says otherwise.
inline Job LayersJob(const std::vector<std::string>& layers, Model::Loss loss = Model::SQUARED_ERROR,
                     uint32_t outputs = 1) {
  Job job;
  job.mutable_model()->set_loss(loss);
  job.mutable_model()->set_outputs(outputs);
  for (const std::string& text : layers) {
    REQUIRE(google::protobuf::TextFormat::ParseFromString(text, job.mutable_model()->add_layers()));
  }
  return job;
}

inline TestModel MakeModel(const Job& job, const FeatureSchema& schema, uint64_t seed = 1) {
  auto graph = ModelGraph::Create(job, schema);
  REQUIRE(graph.status() == absl::OkStatus());
  return TestModel(std::move(graph).value(), seed);
}

// Bags of 0 to 3 of a slot's 5 keys, half of the slots with weights; labels fit `loss`.
inline Batch RandomBatch(const FeatureSchema& schema, Model::Loss loss, uint32_t outputs, uint32_t rows,
                         uint64_t seed) {
  Random random({seed});
  BatchBuilder builder(schema);
  for (uint32_t r = 0; r < rows; ++r) {
    std::vector<std::vector<uint64_t>> bags(schema.slots_size());
    for (size_t s = 0; s < bags.size(); ++s) {
      for (uint64_t n = random.Below(4); n > 0; --n) bags[s].push_back(random.Below(5));
    }
    std::vector<float> dense;
    for (int d = 0; d < schema.dense_size(); ++d) dense.push_back(static_cast<float>(random.Normal()));
    const double label = loss == Model::SOFTMAX_CROSS_ENTROPY  ? static_cast<double>(random.Below(outputs))
                         : loss == Model::BINARY_CROSS_ENTROPY ? static_cast<double>(random.Below(2))
                                                               : random.Normal();
    builder.Add(static_cast<float>(label), bags, dense);
    if (loss == Model::MULTI_LABEL_BCE) {
      std::vector<uint32_t> ids;
      for (uint32_t id = 0; id < outputs; ++id) {
        if (random.Below(2) == 0) ids.push_back(id);
      }
      builder.AddLabels(ids);
    }
  }
  for (size_t s = 0; s < builder.batch()->slots.size(); s += 2) {
    SlotColumn& slot = builder.batch()->slots[s];
    for (size_t i = 0; i < slot.keys.size(); ++i) slot.weights.push_back(static_cast<float>(0.5 + random.Uniform()));
  }
  return *builder.batch();
}

}  // namespace shoal

#endif  // SHOAL_WORKER_MODEL_RANDOM_MODEL_H_
