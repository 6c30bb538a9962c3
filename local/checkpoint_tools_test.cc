// Diff, merge and export of checkpoints that a small cluster wrote.
#include <catch2/catch.hpp>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>

#include "local/checkpoint_diff.h"
#include "local/checkpoint_export.h"
#include "server/checkpoint/checkpoint.h"
#include "server/checkpoint/merge.h"
#include "server/test_cluster.h"

namespace shoal {
namespace {

namespace fs = std::filesystem;

JobConfig Config() {
  JobConfig config = TestCluster::DefaultConfig();
  Optimizer* sparse = config.mutable_job()->mutable_optimizer()->mutable_sparse();
  sparse->mutable_adagrad()->set_learning_rate(0.1f);
  sparse->mutable_adagrad()->set_epsilon(1e-8f);
  config.mutable_job()->mutable_ttl()->set_examples(40);
  config.mutable_job()->mutable_checkpoint()->set_full_every(10);
  return config;
}

// Keys [first, first + 10).
TestBatch Batch(uint64_t number, uint64_t first, float dense) {
  TestBatch batch;
  batch.begin = number * 10;
  batch.end = number * 10 + 10;
  for (uint64_t key = first; key < first + 10; ++key) batch.rows[key] = {1.5f, static_cast<float>(key)};
  batch.dense = dense;
  return batch;
}

using Rows = std::map<std::pair<std::string, uint64_t>, std::vector<float>>;

Rows RowsOf(const std::string& dir) {
  Rows rows;
  const absl::Status status = VisitRows(dir, [&](const CheckpointRow& row) {
    std::vector<float>& values = rows[{std::string(row.table), row.key}];
    values.assign(row.weights.begin(), row.weights.end());
    values.insert(values.end(), row.state.begin(), row.state.end());
  });
  REQUIRE(status.ToString() == "OK");
  return rows;
}

TEST_CASE("DiffCheckpoints: counts rows that came, went and changed, whatever the number of servers", "[unit]") {
  const std::string dir = FreshDirectory("diff");
  TestCluster cluster(Config(), 2);
  cluster.Push(Batch(0, 100, 1));
  cluster.Push(Batch(1, 200, 0));
  REQUIRE(cluster.Save(dir, "c1", 1, 9).ok());
  cluster.Push(Batch(2, 205, 0));  // 5 new, 5 changed
  REQUIRE(cluster.Save(dir, "c2", 2, 9, "c1").ok());
  absl::StatusOr<CheckpointDiff> diff = DiffCheckpoints(dir + "/c1", dir);
  REQUIRE(diff.ok());
  CHECK(diff->after == dir + "/c2");
  REQUIRE(diff->tables.size() == 1);
  CHECK(diff->tables[0].rows_before == 20);
  CHECK(diff->tables[0].rows_after == 25);
  CHECK(diff->tables[0].added == 5);
  CHECK(diff->tables[0].removed == 0);
  CHECK(diff->tables[0].changed == 5);
  CHECK(diff->tables[0].weights_changed == 5);
  REQUIRE(diff->tensors.size() == 1);
  CHECK(diff->tensors[0].norm_of_difference == 0);
  CHECK_FALSE(diff->same());
  cluster.Push(Batch(3, 205, 2));
  cluster.Push(Batch(4, 205, 0));  // 50 examples: keys 100.. are older than the TTL of 40
  REQUIRE(cluster.Save(dir, "c3", 3, 9, "c2").ok());
  diff = DiffCheckpoints(dir + "/c2", dir + "/c3");
  REQUIRE(diff.ok());
  CHECK(diff->tables[0].removed == 10);
  CHECK(diff->tables[0].rows_after == 15);
  // 12 weights, each moved by a sum of 2 at rate 1 (12 x -1 before).
  CHECK(diff->tensors[0].floats == 12);
  CHECK(diff->tensors[0].norm_before == Approx(std::sqrt(12.0)));
  CHECK(diff->tensors[0].norm_after == Approx(3 * std::sqrt(12.0)));
  CHECK(diff->tensors[0].norm_of_difference == Approx(2 * std::sqrt(12.0)));
  CHECK(diff->tensors[0].max_abs_difference == Approx(2));
  CHECK(DiffText(*diff).find("different\n") != std::string::npos);
  // The same rows, spread in another way.
  JobConfig other = Config();
  other.mutable_job()->set_partitions(5);
  TestCluster five(other, 1), again(other, 1);
  for (TestCluster* c : {&five, &again}) c->Push(Batch(0, 100, 1));
  TestCluster eight(Config(), 2);
  eight.Push(Batch(0, 100, 1));
  const std::string a = *five.Save(FreshDirectory("five"), "a"), b = *eight.Save(FreshDirectory("eight"), "b");
  diff = DiffCheckpoints(a, b);
  REQUIRE(diff.ok());
  CHECK(diff->same());
  CHECK(DiffCheckpoints(a, dir + "/none").status().code() == absl::StatusCode::kNotFound);
}

TEST_CASE("MergeCheckpoint: one full checkpoint with the bits of the chain's end", "[unit]") {
  const std::string dir = FreshDirectory("merge");
  TestCluster cluster(Config(), 3);
  for (uint64_t b = 0; b < 9; ++b) {
    cluster.Push(Batch(b, 100 + 7 * b, b % 2 == 0 ? 1 : 0));
    if (b % 3 == 2) {
      const std::string parent = b == 2 ? "" : "c" + std::to_string(b - 3);
      REQUIRE(cluster.Save(dir, "c" + std::to_string(b), b, 9, parent).ok());
    }
  }
  const std::string out = FreshDirectory("merged") + "/full";
  const absl::StatusOr<MergeReport> report = MergeCheckpoint(dir, out);
  INFO(report.status().ToString());
  REQUIRE(report.ok());
  CHECK(report->links == 3);
  CHECK(report->written == out);
  CHECK(report->rows == cluster.Digest().at("t").second);
  CHECK(VerifyCheckpoint(out).ToString() == "OK");
  CHECK(ReadManifest(out, nullptr)->parent().empty());
  // The same as what the live store writes when it is asked for everything.
  const std::string live = *cluster.Save(FreshDirectory("live"), "c", 10);
  CHECK(RowsOf(out) == RowsOf(live));
  CHECK(DiffCheckpoints(out, live)->same());
  TestCluster restored(Config(), 2, out, 2);
  REQUIRE(restored.prepared().ToString() == "OK");
  CHECK(restored.Digest() == cluster.Digest());
  for (TestCluster* c : {&cluster, &restored}) {
    for (uint64_t b = 9; b < 12; ++b) c->Push(Batch(b, 100 + 7 * b, 1));
  }
  CHECK(restored.Digest() == cluster.Digest());
  CHECK(MergeCheckpoint(dir, out).status().code() == absl::StatusCode::kAlreadyExists);
  fs::remove_all(dir + "/c2");
  CHECK(MergeCheckpoint(dir, out + "2").status().message().find("its parent c2") != absl::string_view::npos);
  CHECK_FALSE(fs::exists(out + "2.tmp"));
}

TEST_CASE("ExportCheckpoint: text gives every float back", "[unit]") {
  TestCluster cluster(Config(), 2);
  cluster.Push(Batch(0, 100, 0.3f));
  const std::string checkpoint = *cluster.Save(FreshDirectory("export"), "c");
  const Rows rows = RowsOf(checkpoint);
  ExportOptions options;
  options.checkpoint = checkpoint;
  options.output = FreshDirectory("tsv");
  options.format = ExportFormat::kTsv;
  options.state = true;
  const absl::StatusOr<ExportReport> report = ExportCheckpoint(options);
  INFO(report.status().ToString());
  REQUIRE(report.ok());
  REQUIRE(report->tables.size() == 2);
  CHECK(report->tables[0].rows == 10);
  CHECK(report->tables[1].rows == 12);
  std::ifstream table(options.output + "/t.tsv");
  std::string line;
  uint64_t lines = 0;
  while (std::getline(table, line)) {
    std::istringstream in(line);
    uint64_t key;
    in >> key;
    std::vector<float> values;
    for (std::string text; in >> text;) values.push_back(std::strtof(text.c_str(), nullptr));
    CHECK(values == rows.at({"t", key}));
    ++lines;
  }
  CHECK(lines == 10);
  std::ifstream tensor(options.output + "/w.tsv");
  lines = 0;
  while (std::getline(tensor, line)) ++lines;
  CHECK(lines == 12);
  options.tables = {"nothing"};
  CHECK(ExportCheckpoint(options).status().message() == "--tables nothing: the checkpoint has no such table or tensor");
  options.tables = {};
  options.format = ExportFormat::kNpz;
  options.output = "/dev/full/x.npz";
  CHECK_FALSE(ExportCheckpoint(options).ok());
}

}  // namespace
}  // namespace shoal
