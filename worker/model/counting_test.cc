#include "worker/model/counting.h"

#include <catch2/catch.hpp>
#include <map>

#include "worker/model/testing.h"

namespace shoal {
namespace {

Job CountingJob(uint32_t dim) {
  Job job;
  job.mutable_model()->set_preset(Model::COUNTING);
  job.mutable_model()->set_embedding_dim(dim);
  return job;
}

TEST_CASE("Counting: content does not depend on the order of keys, but on their slots", "[unit]") {
  const FeatureSchema schema = MakeTestSchema(2, 0);
  BatchBuilder builder(schema);
  builder.Add(0, {{1, 2, 3}, {4}}, {});
  builder.Add(0, {{3, 1, 2}, {4}}, {});
  builder.Add(0, {{1, 2, 4}, {3}}, {});
  builder.Add(0, {{1, 2, 3, 3}, {4}}, {});
  const Batch& batch = *builder.batch();
  CHECK(RecordContent(batch, 0) == RecordContent(batch, 1));
  CHECK(RecordContent(batch, 0) != RecordContent(batch, 2));
  CHECK(RecordContent(batch, 0) != RecordContent(batch, 3));
  CHECK(CountingValue(17, 0) == 1);
  std::map<float, int> seen;
  for (uint64_t content = 0; content < 1600; ++content) ++seen[CountingValue(content, 3)];
  CHECK(seen.size() == 16);
  CHECK(seen.begin()->first == 0);
  CHECK(seen.rbegin()->first == 15);
  CHECK(CountingValue(5, 1) == CountingValue(5, 1));
}

TEST_CASE("Counting: gradients are the integer sums of the records", "[unit]") {
  const FeatureSchema schema = MakeTestSchema(2, 1);
  auto graph = ModelGraph::Create(CountingJob(3), schema);
  REQUIRE(graph.ok());
  CHECK((*graph)->spec().tables(0).name() == "count");
  CHECK((*graph)->spec().tables(0).dim() == 3);
  CHECK((*graph)->spec().tables(0).init_stddev() == 0);
  CHECK((*graph)->spec().tensors(0).name() == "records");
  CHECK((*graph)->spec().tensors(0).shape(0) == 3);
  CHECK((*graph)->loss() == Model::BINARY_CROSS_ENTROPY);
  TestModel model(std::move(graph).value(), 1);

  BatchBuilder builder(schema);
  builder.Add(1, {{10, 11}, {10}}, {0.5f});
  builder.Add(0, {{10, 10}, {}}, {0.5f});
  builder.Add(0, {{}, {}}, {0.5f});
  const Batch& batch = *builder.batch();
  auto result = model.Run(batch, true);
  REQUIRE(result.ok());
  CHECK(result->loss_sum == 0);
  CHECK(result->predictions == std::vector<float>{0.5f, 0.5f, 0.5f});
  const uint64_t a = RecordContent(batch, 0), b = RecordContent(batch, 1), c = RecordContent(batch, 2);
  for (uint32_t d = 0; d < 3; ++d) {
    CHECK(model.tensor_gradients[0][d] == CountingValue(a, d) + CountingValue(b, d) + CountingValue(c, d));
    const std::vector<uint64_t>& keys = model.groups()[0].keys;
    REQUIRE(keys.size() == 2);
    for (size_t k = 0; k < 2; ++k) {
      const float expected = keys[k] == 10 ? 2 * CountingValue(a, d) + 2 * CountingValue(b, d) : CountingValue(a, d);
      CHECK(model.row_gradients[0][k * 3 + d] == expected);
    }
  }
  REQUIRE(model.Run(*BatchBuilder(schema).batch(), true).ok());
  CHECK(model.tensor_gradients[0] == std::vector<float>{0, 0, 0});
}

TEST_CASE("Counting: works without slots and with a dim of 0 taken as 1", "[unit]") {
  auto graph = ModelGraph::Create(CountingJob(0), MakeTestSchema(0, 2));
  REQUIRE(graph.ok());
  CHECK((*graph)->groups().empty());
  TestModel model(std::move(graph).value(), 1);
  BatchBuilder builder(MakeTestSchema(0, 2));
  builder.Add(1, {}, {1, 2});
  builder.Add(1, {}, {3, 4});
  REQUIRE(model.Run(*builder.batch(), true).ok());
  CHECK(model.tensor_gradients[0] == std::vector<float>{2});
}

}  // namespace
}  // namespace shoal
