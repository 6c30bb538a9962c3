// Periodic checkpoints of a running job: deltas between full ones, and a disk that is full for a while.
#include <atomic>
#include <catch2/catch.hpp>
#include <filesystem>
#include <thread>

#include "base/clock.h"
#include "local/local_cluster.h"
#include "local/run_job.h"
#include "server/checkpoint/checkpoint.h"
#include "tests/testing/test_jobs.h"

namespace shoal {
namespace {

namespace fs = std::filesystem;

constexpr absl::Duration kLimit = absl::Seconds(20);

Job PeriodicJob(const std::string& dir, const std::string& sync) {
  return TestJob(
      "name: periodic\n"
      "data: {format: {synthetic: {rows: 16000, categories: 8, ids_per_category: 2000}}}\n"
      "model: {preset: lr}\n"
      "batch: {size: 100}\n"
      "partitions: 16\n"
      "ttl: 6000\n"
      "admission: 2\n"
      "checkpoint: {dir: ckpt, every: 20ms, keep: 1000, full_every: 3}\n"
      "sync: " +
          sync + "\n",
      dir);
}

// Trains on two servers; holds the lanes after every 20 batches until `ready(n)` for the n-th time, so that the job
// outlasts its checkpoints.
JobStatus Train(const Job& job, const std::function<bool(uint64_t)>& ready, std::string* reasons) {
  LocalClusterOptions options;
  options.servers = 2;
  options.workers = 1;
  std::atomic<bool> late{false};
  options.before_batch = [&](int, uint32_t, uint64_t finished) {
    if (finished == 0 || finished % 20 != 0) return;
    const Clock& clock = Clock::Steady();
    const absl::Duration end = clock.Now() + kLimit;
    while (!ready(finished / 20)) {
      if (clock.Now() > end) late = true;
      if (late) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  };
  auto cluster = LocalCluster::Start(options);
  REQUIRE(cluster.ok());
  RunJobOptions run;
  run.on_status = [&](const JobStatus& status) {
    if (reasons->find(status.reason()) == std::string::npos) *reasons += status.reason() + "\n";
  };
  const absl::StatusOr<JobStatus> status = RunJob((*cluster)->scheduler(), job, run);
  REQUIRE(status.ok());
  CHECK_FALSE(late);
  INFO(Describe(*status));
  REQUIRE(status->state() == SUCCEEDED);
  return *status;
}

uint64_t CountOf(const std::string& dir) {
  const auto all = ListCheckpoints(dir);
  return all.ok() ? all->size() : 0;
}

TEST_CASE("Periodic checkpoints: deltas build on the one before, every third is full, the final one too", "[cluster]") {
  const std::string sync = GENERATE("asp", "{ssp: {staleness: 2}}");
  TempDir dir;
  const Job job = PeriodicJob(dir.path(), sync);
  std::string reasons;
  Train(
      job, [&](uint64_t n) { return CountOf(job.checkpoint().dir()) >= n; }, &reasons);
  const auto all = ListCheckpoints(job.checkpoint().dir());
  REQUIRE(all.ok());
  REQUIRE(all->size() >= 6);
  std::string before;
  uint64_t deltas = 0;
  for (const auto& [path, manifest] : *all) {
    INFO(path);
    CHECK(VerifyCheckpoint(path).ToString() == "OK");
    if (!manifest.parent().empty()) CHECK(manifest.parent() == before);
    deltas = manifest.parent().empty() ? 0 : deltas + 1;
    CHECK(deltas < 3);
    before = fs::path(path).filename().string();
  }
  CHECK(all->at(1).second.parent() == fs::path(all->at(0).first).filename().string());
  CHECK(all->back().second.final());
  CHECK(all->back().second.parent().empty());
}

TEST_CASE("Periodic checkpoints: while the disk is full training goes on and the status warns; then they go on",
          "[cluster]") {
  TempDir dir;
  const Job job = PeriodicJob(dir.path(), "asp");
  const std::string ckpt = job.checkpoint().dir();
  // The second one meets a disk on which every write says ENOSPC.
  fs::create_directories(ckpt + "/ckpt-00000002.tmp");
  fs::create_symlink("/dev/full", ckpt + "/ckpt-00000002.tmp/server-1.part");
  std::string reasons;
  const auto third = [&](uint64_t) { return fs::exists(ckpt + "/ckpt-00000003"); };
  Train(job, third, &reasons);
  CHECK(reasons.find("ckpt-00000002.tmp/server-1.part: No space left on device") != std::string::npos);
  CHECK_FALSE(fs::exists(ckpt + "/ckpt-00000002"));
  CHECK_FALSE(fs::exists(ckpt + "/ckpt-00000002.tmp"));
  for (const char* name : {"/ckpt-00000001", "/ckpt-00000003"}) CHECK(VerifyCheckpoint(ckpt + name).ToString() == "OK");
  CHECK(VerifyCheckpoint(ckpt).ToString() == "OK");
}

}  // namespace
}  // namespace shoal
