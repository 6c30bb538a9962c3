#include "local/report.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>

#include "proto/metrics_convert.h"

namespace shoal {
namespace {

MetricSums BinarySums() {
  MetricSums sums;
  sums.examples = 4;
  sums.loss = 2;
  sums.label = 2;
  sums.prediction = 1.5;
  sums.correct = 3;
  sums.classified = 4;
  for (const auto& [score, positive] : {std::pair{0.1f, false}, {0.2f, true}, {0.3f, false}, {0.9f, true}}) {
    sums.auc.Add(score, positive);
  }
  return sums;
}

JobStatus Status() {
  JobStatus status;
  status.set_job(7);
  status.set_name("census");
  status.set_state(SUCCEEDED);
  status.set_passes(2);
  status.set_examples(300);
  status.set_sync("ssp(4)");
  *status.mutable_train() = ToProto(BinarySums());
  auto& clock = *status.mutable_counters()->mutable_clock_staleness()->mutable_count();
  clock[0] = 5;
  clock[3] = 2;
  status.mutable_counters()->set_duplicate(1);
  for (const uint64_t examples : {100, 200}) {
    WorkerShare* const worker = status.add_workers();
    worker->set_worker(examples == 100 ? "a" : "b");
    worker->set_examples(examples);
  }
  TableDigest* const digest = status.add_digests();
  digest->set_table("wide");
  digest->set_sum(0xab);
  return status;
}

}  // namespace

TEST_CASE("Report: metrics that apply are numbers, undefined ones null, others absent", "[local][unit]") {
  const nlohmann::ordered_json binary = MetricsJson(BinarySums());
  CHECK(binary["examples"] == 4);
  CHECK(binary["logloss"] == 0.5);
  CHECK(binary["auc"] == 0.75);  // 3 of 4 pairs in the right order
  CHECK(binary["accuracy"] == 0.75);
  CHECK(binary["calibration"] == 0.75);
  CHECK_FALSE(binary.contains("rmse"));
  CHECK_FALSE(binary.contains("precision_at_1"));

  MetricSums one_class;
  one_class.examples = 1;
  one_class.classified = 1;
  one_class.auc.Add(0.5f, true);
  CHECK(MetricsJson(one_class)["auc"].is_null());

  MetricSums diverged = BinarySums();
  diverged.loss = std::nan("");
  CHECK(MetricsJson(diverged)["logloss"].is_null());
  CHECK_NOTHROW(nlohmann::json::parse(MetricsJson(diverged).dump()));
}

TEST_CASE("Report: a job's JSON has shares, staleness, counters and digests", "[local][unit]") {
  const nlohmann::ordered_json json = JobJson(Status());
  CHECK(json["job"] == "census");
  CHECK(json["id"] == 7);
  CHECK(json["state"] == "SUCCEEDED");
  CHECK(json["workers"][1]["share"].get<double>() == Approx(2.0 / 3));
  CHECK(json["staleness"]["histogram"] == nlohmann::ordered_json({{"0", 5}, {"3", 2}}));
  CHECK(json["staleness"]["max"] == 3);
  CHECK(json["counters"]["duplicate"] == 1);
  CHECK(json["digest"]["wide"] == "00000000000000ab");
  CHECK(json["checkpoint"].is_null());
  CHECK_FALSE(json.contains("eval"));
}

TEST_CASE("Report: the text names state, reason and shares", "[local][unit]") {
  JobStatus status = Status();
  status.set_state(FAILED);
  status.set_reason("the disk is full");
  const std::string text = JobText(status);
  CHECK(text.find("job 7 census: FAILED (the disk is full)\n") == 0);
  CHECK(text.find("b: 200 examples (66.7 %)") != std::string::npos);
  CHECK(text.find("duplicate 1") != std::string::npos);
}

TEST_CASE("Report: progress extrapolates the time that is left", "[local][unit]") {
  JobStatus status = Status();
  status.set_state(RUNNING);
  status.set_pass(1);
  status.set_splits(40);
  status.set_splits_done(10);
  status.set_seconds(5);
  const std::string text = ProgressText(status);
  CHECK(text.find("RUNNING  pass 2/2  25 %") == 0);
  CHECK(text.find("ETA 15s") != std::string::npos);
  status.set_splits_done(0);
  CHECK(ProgressText(status).find("ETA") == std::string::npos);
}

TEST_CASE("Report: the text begins with the metrics and has a row for slots of which something was refused only",
          "[local][unit]") {
  JobStatus status = Status();
  for (int i = 0; i < 34; ++i) {
    SlotReport* const slot = status.add_slots();
    slot->set_table(i < 17 ? "linear" : "embedding");
    slot->set_slot("slot" + std::to_string(i));
    slot->set_rows(2);
    slot->set_bytes(1 << 20);
  }
  const std::string quiet = JobText(status);
  INFO(quiet);
  CHECK(quiet.find("AUC 0.75") < quiet.find("  staleness"));
  CHECK(std::count(quiet.begin(), quiet.end(), '\n') < 12);  // metrics stay on the screen
  CHECK(quiet.find("  table       linear: 34 rows, 17.0 MiB in 17 slots\n") != std::string::npos);
  CHECK(quiet.find("slot3") == std::string::npos);
  CHECK(quiet.find("NOT ADMITTED") == std::string::npos);
  CHECK(JobJson(status)["slots"].size() == 34);
  status.mutable_slots(3)->set_guard_refused(1);
  status.mutable_slots(20)->set_expired(7);
  const std::string loud = JobText(status);
  INFO(loud);
  CHECK(loud.find("NOT ADMITTED") != std::string::npos);
  CHECK(loud.find("  linear     slot3 ") != std::string::npos);
  CHECK(loud.find("  embedding  slot20 ") != std::string::npos);
  CHECK(std::count(loud.begin(), loud.end(), '\n') == std::count(quiet.begin(), quiet.end(), '\n') + 3);
}

TEST_CASE("Report: only bsp has an effective batch", "[local][unit]") {
  Job job;
  job.mutable_batch()->set_size(256);
  CHECK(EffectiveBatchText(job).empty());
  job.mutable_sync()->mutable_bsp()->set_lanes(4);
  CHECK(EffectiveBatchText(job) == "effective batch: 4 lanes x 256 = 1024 examples");
}

}  // namespace shoal
