// A job that begins with tables of another one.
#include <catch2/catch.hpp>
#include <map>

#include "server/checkpoint/checkpoint.h"
#include "server/test_cluster.h"

namespace shoal {
namespace {

JobConfig Config() {
  JobConfig config = TestCluster::DefaultConfig();
  OptimizerPair* optimizer = config.mutable_job()->mutable_optimizer();
  optimizer->mutable_sparse()->mutable_adagrad()->set_learning_rate(0.1f);
  optimizer->mutable_sparse()->mutable_adagrad()->set_epsilon(1e-8f);
  optimizer->mutable_dense()->mutable_momentum()->set_learning_rate(0.1f);
  optimizer->mutable_dense()->mutable_momentum()->set_momentum(0.9f);
  config.mutable_plan()->mutable_model()->mutable_tables(0)->set_init_stddev(0.5f);
  return config;
}

TestBatch Batch(uint64_t number) {
  TestBatch batch;
  batch.begin = number * 10;
  batch.end = number * 10 + 10;
  for (uint64_t key = 3 * number; key < 3 * number + 20; ++key) {
    batch.rows[key * 0x9e3779b97f4a7c15ULL] = {static_cast<float>(key), -1.0f / static_cast<float>(key + 1)};
  }
  batch.dense = 0.5f + static_cast<float>(number);
  return batch;
}

struct Values {
  std::vector<float> weights, state;
  bool operator==(const Values& other) const { return weights == other.weights && state == other.state; }
};
using Rows = std::map<std::pair<std::string, uint64_t>, Values>;

Rows RowsOf(const std::string& dir) {
  Rows rows;
  const absl::Status status = VisitRows(dir, [&](const CheckpointRow& row) {
    Values& values = rows[{std::string(row.table), row.key}];
    values.weights.assign(row.weights.begin(), row.weights.end());
    values.state.assign(row.state.begin(), row.state.end());
  });
  REQUIRE(status.ToString() == "OK");
  return rows;
}

TEST_CASE("Warm start: tables of another job, with another number of partitions and servers, bit for bit",
          "[server][unit]") {
  TestCluster first(Config(), 2);
  for (uint64_t b = 0; b < 6; ++b) first.Push(Batch(b));
  const std::string source = *first.Save(FreshDirectory("source"), "a");
  const Rows old = RowsOf(source);
  const bool state = GENERATE(false, true);
  const uint32_t partitions = GENERATE(8u, 5u);
  JobConfig config = Config();
  config.mutable_job()->set_partitions(partitions);
  config.mutable_job()->mutable_warm_start()->set_checkpoint(source);
  config.mutable_job()->mutable_warm_start()->set_optimizer_state(state);
  TestCluster warm(config, 3);
  REQUIRE(warm.prepared().ToString() == "OK");
  // As if it had not seen an example.
  CHECK(warm.Open(1, 1, 0).watermarks == std::vector<uint64_t>{0});
  CHECK(warm.server(0).ReportDone(1)->at(0).examples() == 0);
  const Rows rows = RowsOf(*warm.Save(FreshDirectory("warm"), "w"));
  REQUIRE(rows.size() == old.size());
  for (const auto& [id, values] : old) {
    const Values& now = rows.at(id);
    CHECK(now.weights == values.weights);
    CHECK(now.state == (state ? values.state : std::vector<float>(values.state.size(), 0)));
  }
  CHECK(warm.server(0).TakeLoadNote(1).find("partitions warm from " + source + ": t ") != std::string::npos);
  CHECK(warm.server(0).TakeLoadNote(1).empty());
  // One server or three, it trains on to the same bits.
  TestCluster alone(config, 1);
  for (TestCluster* cluster : {&warm, &alone}) {
    for (uint64_t b = 0; b < 4; ++b) {
      cluster->Push(Batch(b));
      REQUIRE(cluster->last().ok());
    }
  }
  CHECK(alone.Digest() == warm.Digest());
}

TEST_CASE("Warm start: only the tables that are named; the others begin anew", "[server][unit]") {
  TestCluster first(Config(), 2);
  for (uint64_t b = 0; b < 6; ++b) first.Push(Batch(b));
  const std::string source = *first.Save(FreshDirectory("named"), "a");
  JobConfig config = Config();
  config.mutable_job()->mutable_warm_start()->set_checkpoint(source);
  config.mutable_job()->mutable_warm_start()->add_tables("w");
  TestCluster warm(config, 2);
  REQUIRE(warm.prepared().ToString() == "OK");
  const Rows rows = RowsOf(*warm.Save(FreshDirectory("named_warm"), "w"));
  CHECK(rows.size() == 1);
  CHECK(rows.at({"w", 0}).weights == RowsOf(source).at({"w", 0}).weights);
  CHECK(warm.server(0).TakeLoadNote(1).find("; begin anew: t; not used: t") != std::string::npos);
}

TEST_CASE("Warm start: what does not fit is named", "[server][unit]") {
  TestCluster first(Config(), 2);
  first.Push(Batch(0));
  const std::string source = *first.Save(FreshDirectory("misfit"), "a");
  const auto refused = [&](const std::string& what, auto change) {
    JobConfig config = Config();
    config.mutable_job()->mutable_warm_start()->set_checkpoint(source);
    change(config.mutable_job(), config.mutable_plan()->mutable_model());
    const absl::Status status = TestCluster(config, 1).prepared();
    INFO(status.ToString());
    CHECK(status.message().find(what) != absl::string_view::npos);
    return config;
  };
  refused("table t has dim 2 in the checkpoint, 3 in the job",
          [](Job*, ModelSpec* model) { model->mutable_tables(0)->set_dim(3); });
  refused("tensor w has shape 3x4 in the checkpoint, 3x5 in the job",
          [](Job*, ModelSpec* model) { model->mutable_tensors(0)->set_shape(1, 5); });
  refused("warm_start.tables: x: the job has no table or tensor of that name",
          [](Job* job, ModelSpec*) { job->mutable_warm_start()->add_tables("x"); });
  refused("warm_start.optimizer_state: t was trained by adagrad, the job uses adam", [](Job* job, ModelSpec*) {
    job->mutable_warm_start()->set_optimizer_state(true);
    job->mutable_optimizer()->mutable_sparse()->mutable_adam()->set_learning_rate(0.1f);
    job->mutable_optimizer()->mutable_sparse()->mutable_adam()->set_beta1(0.9f);
    job->mutable_optimizer()->mutable_sparse()->mutable_adam()->set_beta2(0.9f);
    job->mutable_optimizer()->mutable_sparse()->mutable_adam()->set_epsilon(1e-8f);
  });
  const auto rename = [](Job*, ModelSpec* model) { model->mutable_tables(0)->set_name("u"); };
  JobConfig config = refused("the checkpoint has no u; name the tables", rename);
  config.mutable_job()->mutable_warm_start()->set_allow_missing(true);
  CHECK(TestCluster(config, 1).prepared().ToString() == "OK");
  refused("nothing: No such file or directory",
          [](Job* job, ModelSpec*) { job->mutable_warm_start()->set_checkpoint(FreshDirectory("nothing")); });
}

}  // namespace
}  // namespace shoal
