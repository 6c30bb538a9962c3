// A lane's loop, from reading a batch to counting it, takes no large block once batches of that size were seen. Without
// a network all of it is on the lane's own thread: servers, too. (tests/rpc/allocations_test.cc has the network.)
#include <atomic>
#include <catch2/catch.hpp>
#include <string>

#include "local/local_cluster.h"
#include "local/run_job.h"
#include "tests/testing/count_blocks.h"
#include "tests/testing/test_jobs.h"

namespace shoal {
namespace {

constexpr uint64_t kFirst = 40, kLast = 110;  // batches

// Few keys, so that all were seen soon, in many slots. One split: each begins with memory of its own, and so does the
// order of a block of shuffled records, which is small here.
Job OneSplit(const std::string& sync) {
  return TestJob(
      "name: lane\n"
      "data:\n"
      "  format: {synthetic: {rows: 60000, categories: 40, ids_per_category: 30, integers: 4, integer_features: "
      "dense}}\n"
      "  split_bytes: 1GiB\n"
      "  shuffle: 500\n"
      "model: {preset: deepfm, embedding_dim: 16, hidden: [32]}\n"
      "batch: {size: 500}\n"
      "partitions: 1500\n"
      "sync: " +
          sync + "\n",
      "");
}

TEST_CASE("A lane takes no large block while it trains batches of a size that it has seen", "[cluster]") {
  const std::string sync = GENERATE(as<std::string>(), "asp", "{ssp: 2}", "{bsp: 1}");
  const bool pull_ahead = GENERATE(false, true);
  CAPTURE(sync, pull_ahead);
  std::atomic<uint64_t> counted{0}, batches{0};
  LocalClusterOptions options;
  options.pull_ahead = pull_ahead;
  // Each takes the metrics along, which begin anew then.
  options.heartbeat = absl::Minutes(1);
  options.deadline = absl::Minutes(5);
  options.before_batch = [&](int, uint32_t, uint64_t finished) {
    if (finished == kFirst) StartCounting(CountedThreads::kThis);
    if (finished > kFirst && finished <= kLast) ++batches;
    if (finished == kLast) counted = StopCounting().ours;
  };
  auto cluster = LocalCluster::Start(options);
  REQUIRE(cluster.ok());
  const absl::StatusOr<JobStatus> status = RunJob((*cluster)->scheduler(), OneSplit(sync), {});
  REQUIRE(status.ok());
  INFO(Describe(*status) << "\n" << CountedStacks());
  CHECK(status->state() == SUCCEEDED);
  CHECK(batches == kLast - kFirst);
  CHECK(counted == 0);
}

}  // namespace
}  // namespace shoal
