// Whole clusters in one process, without faults: every mode counts each record exactly once.
#include "local/local_cluster.h"

#include <catch2/catch.hpp>

#include "local/run_job.h"
#include "tests/testing/counting.h"
#include "tests/testing/test_jobs.h"

namespace shoal {
namespace {

JobStatus Run(const Job& job, int servers, int workers, uint32_t threads) {
  LocalClusterOptions options;
  options.servers = servers;
  options.workers = workers;
  options.threads = threads;
  auto cluster = LocalCluster::Start(options);
  REQUIRE(cluster.ok());
  absl::StatusOr<JobStatus> status = RunJob((*cluster)->scheduler(), job, {});
  INFO(status.status().ToString());
  REQUIRE(status.ok());
  return *status;
}

TEST_CASE("Local cluster: the counting job is exact in every mode and on any fleet", "[cluster]") {
  const std::string sync = GENERATE("asp", "{ssp: 0}", "{ssp: 3}", "{bsp: 4}", "{bsp: 1}");
  const auto [servers, workers, threads] =
      GENERATE(table<int, int, uint32_t>({{1, 1, 1u}, {1, 1, 4u}, {2, 3, 2u}, {3, 1, 1u}}));
  TempDir dir;
  const Job job = CountingJob(dir.path(), 20000, 2, sync);
  const JobStatus status = Run(job, servers, workers, threads);
  INFO(sync << " " << servers << " servers, " << workers << " workers x " << threads << ": " << Describe(status));
  REQUIRE(status.state() == SUCCEEDED);
  absl::StatusOr<Counts> expected = ExpectedCounts(job);
  absl::StatusOr<Counts> actual = CheckpointCounts(job);
  REQUIRE(expected.ok());
  INFO(actual.status().ToString());
  REQUIRE(actual.ok());
  REQUIRE(expected->rows.size() > 200);
  REQUIRE(CountsDifference(*expected, *actual) == "");
  REQUIRE(status.examples() == 40000);
}

TEST_CASE("Local cluster: bsp gives the same digest on 1 thread, 4 threads and 2 x 2 threads with 3 servers",
          "[cluster]") {
  TempDir dir;
  const Job job = TestJob(
      "name: parity\n"
      "data: {format: {synthetic: {rows: 20000, categories: 6}}}\n"
      "model: {preset: deepfm, embedding_dim: 4, hidden: [16], dropout: 0.2}\n"
      "batch: {size: 128}\n"
      "sync: {bsp: 4}\n"
      "partitions: 32\n",
      dir.path());
  const JobStatus one = Run(job, 1, 1, 1);
  REQUIRE(one.state() == SUCCEEDED);
  REQUIRE(one.digests_size() > 3);
  for (const auto& [servers, workers, threads] : {std::tuple{1, 1, 4u}, std::tuple{3, 2, 2u}}) {
    const JobStatus other = Run(job, servers, workers, threads);
    INFO(Describe(other));
    REQUIRE(other.digests_size() == one.digests_size());
    for (int i = 0; i < one.digests_size(); ++i) {
      INFO(one.digests(i).table());
      REQUIRE(other.digests(i).SerializeAsString() == one.digests(i).SerializeAsString());
    }
  }
}

}  // namespace
}  // namespace shoal
