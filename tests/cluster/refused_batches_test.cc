// Slots and refused batches from the servers' stores to a job's final status, in every mode.
#include <catch2/catch.hpp>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "base/hash.h"
#include "local/local_cluster.h"
#include "local/records.h"
#include "local/report.h"
#include "local/run_job.h"
#include "tests/testing/test_jobs.h"

namespace shoal {
namespace {

constexpr int kRows = 2000;
// The file's only value that is no ordinary number; a token of slot b that no other row has.
constexpr int kBadRow = 1234;

void WriteRows(const std::string& path, bool bad) {
  std::ofstream out(path);
  out << "y,x,a,b\n";
  for (int row = 0; row < kRows; ++row) {
    out << row % 2 << "," << (bad && row == kBadRow ? "1e12" : "0.5") << ",a" << row % 7 << ",b"
        << (row == kBadRow ? 999 : row % 50) << "\n";
  }
}

Job MakeJob(const std::string& dir, const std::string& sync) {
  return TestJob(
      "name: refused\n"
      "data:\n"
      "  train: [" +
          dir +
          "/rows.csv]\n"
          "  format: {csv: {header: true}}\n"
          "  columns: {label: {column: y}, dense: [{column: x}], sparse: [a, b]}\n"
          "  split_bytes: 4096\n"
          "model: {preset: wide_deep, loss: squared_error, embedding_dim: 4, hidden: [8]}\n"
          "batch: {size: 50}\n"
          "partitions: 8\n"
          "sync: " +
          sync + "\n",
      dir);
}

JobStatus Run(const Job& job) {
  LocalClusterOptions options;
  options.servers = 2;
  options.workers = 2;
  options.threads = 2;
  auto cluster = LocalCluster::Start(options);
  REQUIRE(cluster.ok());
  absl::StatusOr<JobStatus> status = RunJob((*cluster)->scheduler(), job, {});
  INFO(status.status().ToString());
  REQUIRE(status.ok());
  INFO(Describe(*status));
  REQUIRE(status->state() == SUCCEEDED);
  return *status;
}

TEST_CASE("Slots: the final status counts rows by table and slot in every mode", "[cluster]") {
  const std::string sync = GENERATE("asp", "{ssp: 2}", "{bsp: 4}");
  TempDir dir;
  WriteRows(dir.path() + "/rows.csv", false);
  const JobStatus status = Run(MakeJob(dir.path(), sync));
  std::map<std::string, uint64_t> rows;
  uint64_t all = 0;
  for (const SlotReport& slot : status.slots()) {
    rows[slot.slot()] += slot.rows();
    all += slot.rows();
    CHECK(slot.keys() == slot.rows());
    CHECK(slot.bytes() > 16 * slot.rows());
    CHECK((slot.guard_refused() == 0 && slot.not_admitted() == 0));
    CHECK((slot.table_index() < 2 && !slot.table().empty()));
  }
  // Two tables, wide and deep, have a row for each of 7 tokens of a and 51 of b.
  CHECK(rows == std::map<std::string, uint64_t>{{"a", 14}, {"b", 102}});
  uint64_t in_servers = 0;
  for (const ServerShare& server : status.servers()) {
    in_servers += server.report().rows();
    CHECK(server.report().slots().empty());
  }
  CHECK(status.servers_size() == 2);
  for (const WorkerShare& worker : status.workers()) CHECK((worker.lanes() == 1 || worker.lanes() == 2));
  CHECK(in_servers == all);
  CHECK(status.refused_batches() == 0);
  const nlohmann::ordered_json json = JobJson(status);
  CHECK(json["slots"].size() == 4);
  CHECK(json["slots"][0]["slot"] == "a");
}

TEST_CASE("Refused batches: one bad value leads to its batch, and the batch to its record", "[cluster]") {
  const std::string sync = GENERATE("asp", "{ssp: 2}", "{bsp: 4}");
  TempDir dir;
  WriteRows(dir.path() + "/rows.csv", true);
  const Job job = MakeJob(dir.path(), sync);
  const JobStatus status = Run(job);
  INFO(JobText(status));
  REQUIRE(status.refused_size() == 1);
  CHECK(status.refused_batches() == 1);
  const RefusedBatch& batch = status.refused(0);
  CHECK((batch.pass() == 0 && !batch.round() && batch.end() - batch.begin() <= 50));
  CHECK((batch.worker() == "worker-0" || batch.worker() == "worker-1"));
  CHECK(batch.file() == dir.path() + "/rows.csv");
  CHECK(batch.file_end() - batch.file_begin() <= 4096 + 20);
  // The error is about 1e12, and so are the gradients of whatever the record touches: its tokens' rows of both tables,
  // a weight of the hidden layer and more.
  std::map<std::string, uint64_t> refused;
  uint64_t blocks = 0;
  for (const RefusedRows& rows : batch.rows()) {
    if (rows.dense()) {
      blocks += rows.rows();
    } else {
      refused[rows.table() + "/" + rows.slot()] += rows.rows();
    }
  }
  CHECK(blocks > 0);
  CHECK(refused ==
        std::map<std::string, uint64_t>{{"embedding/a", 1}, {"embedding/b", 1}, {"linear/a", 1}, {"linear/b", 1}});
  for (const SlotReport& slot : status.slots()) {
    CHECK(slot.guard_refused() == 1);
    CHECK(slot.rows() == (slot.slot() == "a" ? 7 : 50));  // b999 never got a row
  }
  int found = 0, records = 0;
  CHECK(VisitRecords(job, {batch.pass(), batch.split(), 7, 7}, [](const auto&) {}).message() ==
        "end: 7, must be above begin, 7");
  REQUIRE(VisitRecords(job, {batch.pass(), batch.split(), batch.begin(), batch.end()}, [&](const auto& record) {
            ++records;
            if (record["dense"]["x"].template get<float>() != 1e12f) return;
            ++found;
            CHECK(record["slots"]["b"][0] == FeatureKey(SlotSeed("b"), "b999"));
          }).ok());
  CHECK(found == 1);
  CHECK(records == static_cast<int>(batch.end() - batch.begin()));
  const nlohmann::ordered_json json = JobJson(status)["refused_batches"];
  CHECK(json["count"] == 1);
  CHECK(json["newest"][0]["begin"] == batch.begin());
}

}  // namespace
}  // namespace shoal
