// Rows that workers keep between batches: what they serve is never older than the mode allows, and is counted.
#include <catch2/catch.hpp>
#include <map>
#include <set>

#include "base/mutex.h"
#include "local/local_cluster.h"
#include "local/run_job.h"
#include "tests/testing/exact_counts.h"
#include "tests/testing/forwarding_parameter_client.h"
#include "tests/testing/test_jobs.h"

namespace shoal {
namespace {

// By lane and group: when each key was fetched last, and what the batch at work has fetched. Thread-safe.
class Witness {
 public:
  explicit Witness(uint64_t staleness) : staleness_(staleness) {}

  void Pulled(const PullRequest& request, const PullReply& reply) {
    MutexLock lock(&mu_);
    Lane& lane = lanes_[request.header.lane];
    lane.batch = request.batch;
    for (size_t g = 0; g < request.groups.size(); ++g) {
      for (uint64_t key : request.groups[g].keys) {
        lane.fetched[{g, key}] = {reply.slowest_clock, request.batch};
        ++pulled_;
      }
    }
  }

  // What is pushed was used: fetched for this batch, or kept from one that is not too old.
  void Pushing(const PushRequest& request) {
    MutexLock lock(&mu_);
    Lane& lane = lanes_[request.header.lane];
    for (size_t g = 0; g < request.groups.size(); ++g) {
      for (uint64_t key : request.groups[g].keys) {
        const auto found = lane.fetched.find({g, key});
        if (found == lane.fetched.end()) {
          ++never_fetched_;
          continue;
        }
        if (found->second.batch == lane.batch) continue;
        ++served_;
        too_old_ += lane.batch > found->second.slowest_clock + staleness_;
        oldest_ = std::max(oldest_, lane.batch - found->second.slowest_clock);
      }
    }
  }

  struct Counts {
    uint64_t pulled, served, too_old, never_fetched, oldest;
  };
  Counts counts() {
    MutexLock lock(&mu_);
    return {pulled_, served_, too_old_, never_fetched_, oldest_};
  }

 private:
  struct Fetch {
    uint64_t slowest_clock = 0;
    uint64_t batch = 0;
  };
  struct Lane {
    uint64_t batch = 0;
    std::map<std::pair<size_t, uint64_t>, Fetch> fetched;
  };

  const uint64_t staleness_;
  Mutex mu_;
  std::map<uint64_t, Lane> lanes_ ABSL_GUARDED_BY(mu_);
  uint64_t pulled_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t served_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t too_old_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t never_fetched_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t oldest_ ABSL_GUARDED_BY(mu_) = 0;
};

class WatchedClient : public ForwardingParameterClient {
 public:
  WatchedClient(Witness* witness, std::unique_ptr<ParameterClient> inner)
      : ForwardingParameterClient(std::move(inner)), witness_(*witness) {}

  void Pull(const PullRequest* request, absl::Duration timeout, PullReply* reply, Done done) override {
    ForwardingParameterClient::Pull(request, timeout, reply, [=, done = std::move(done)](absl::Status status) {
      if (status.ok() && !request->read_only) witness_.Pulled(*request, *reply);
      done(status);
    });
  }
  void Push(const PushRequest* request, absl::Duration timeout, PushReply* reply, Done done) override {
    witness_.Pushing(*request);
    ForwardingParameterClient::Push(request, timeout, reply, std::move(done));
  }

 private:
  Witness& witness_;
};

JobStatus Run(const Job& job, int servers, Witness* witness) {
  LocalClusterOptions options;
  options.servers = servers;
  options.workers = 2;
  options.threads = 2;
  options.wrap = [witness](int, std::unique_ptr<ParameterClient> inner) -> std::unique_ptr<ParameterClient> {
    return std::make_unique<WatchedClient>(witness, std::move(inner));
  };
  auto cluster = LocalCluster::Start(options);
  REQUIRE(cluster.ok());
  absl::StatusOr<JobStatus> status = RunJob((*cluster)->scheduler(), job, {});
  INFO(status.status().ToString());
  REQUIRE(status.ok());
  return *status;
}

TEST_CASE("Hot rows: no row serves a batch beyond its bound, on one server and on three", "[cluster]") {
  const auto [sync, hot_rows, staleness] = GENERATE(table<std::string, std::string, uint64_t>(
      {{"{ssp: 2}", "1MiB", 2}, {"{ssp: 0}", "1MiB", 0}, {"asp", "{bytes: 1MiB, staleness: 5}", 5}}));
  const int servers = GENERATE(1, 3);
  TempDir dir;
  const Job job = TestJob(
      "name: hot\n"
      "data: {format: {synthetic: {rows: 20000, categories: 6, ids_per_category: 200}}}\n"
      "model: {preset: deepfm, embedding_dim: 3, hidden: [16]}\n"
      "batch: {size: 64}\n"
      "sync: " +
          sync + "\nhot_rows: " + hot_rows + "\npartitions: 32\n",
      dir.path());
  Witness witness(staleness);
  const JobStatus status = Run(job, servers, &witness);
  INFO(sync << " " << servers << " servers: " << Describe(status));
  REQUIRE(status.state() == SUCCEEDED);
  const Witness::Counts counts = witness.counts();
  CHECK(counts.too_old == 0);
  CHECK(counts.never_fetched == 0);
  CHECK(counts.oldest <= staleness);
  CHECK(status.counters().hot_rows_pulled() == counts.pulled);
  CHECK(status.counters().hot_rows_served() == counts.served);
  if (staleness > 0) {
    CHECK(counts.served > counts.pulled / 10);
  }
}

TEST_CASE("Hot rows: every record still counts exactly once", "[cluster]") {
  TempDir dir;
  Job job = CountingJob(dir.path(), 20000, 2, "{ssp: 3}");
  job.mutable_hot_rows()->set_bytes(1 << 20);
  Witness witness(3);
  const JobStatus status = Run(job, 2, &witness);
  REQUIRE(status.state() == SUCCEEDED);
  RequireExact(job);
  CHECK(witness.counts().served > 0);
}

}  // namespace
}  // namespace shoal
