// Lanes that lease, open and pull the next split while they compute the last batch of this one.
#include <atomic>
#include <catch2/catch.hpp>
#include <thread>

#include "absl/synchronization/notification.h"
#include "local/local_cluster.h"
#include "local/run_job.h"
#include "tests/testing/exact_counts.h"
#include "tests/testing/forwarding_parameter_client.h"
#include "tests/testing/test_jobs.h"

namespace shoal {
namespace {

struct Order {
  std::atomic<uint64_t> pulls{0}, pushes{0}, ends{0};
  std::atomic<uint64_t> late{0};  // pushes that were sent when no later batch's rows had been asked for
};

class OrderClient : public ForwardingParameterClient {
 public:
  OrderClient(std::unique_ptr<ParameterClient> inner, Order* order)
      : ForwardingParameterClient(std::move(inner)), order_(*order) {}
  void Pull(const PullRequest* request, absl::Duration timeout, PullReply* reply, Done done) override {
    if (!request->read_only) ++order_.pulls;
    ForwardingParameterClient::Pull(request, timeout, reply, std::move(done));
  }
  void Push(const PushRequest* request, absl::Duration timeout, PushReply* reply, Done done) override {
    ++order_.pushes;
    order_.ends += request->end_of_split;
    order_.late += order_.pulls <= order_.pushes;
    ForwardingParameterClient::Push(request, timeout, reply, std::move(done));
  }

 private:
  Order& order_;
};

TEST_CASE("Pull ahead: each batch's rows are asked for before the one before is pushed, across splits and passes",
          "[cluster]") {
  TempDir dir;
  const Job job = CountingJob(dir.path(), 20000, 2, "asp");
  Order order;
  LocalClusterOptions options;
  options.pull_ahead = true;
  options.wrap = [&](int, std::unique_ptr<ParameterClient> inner) {
    return std::make_unique<OrderClient>(std::move(inner), &order);
  };
  auto cluster = LocalCluster::Start(options);
  REQUIRE(cluster.ok());
  RequireExact(job, RunJob((*cluster)->scheduler(), job, {}));
  REQUIRE(order.ends > 4);
  REQUIRE(order.pulls == order.pushes);
  // The very last one.
  REQUIRE(order.late == 1);
}

TEST_CASE("Pull ahead: what a worker that goes has leased ahead is trained by others", "[cluster]") {
  const std::string sync = GENERATE("asp", "{ssp: 2}");
  const bool drained = GENERATE(false, true);
  CAPTURE(sync, drained);
  TempDir dir;
  Job job = CountingJob(dir.path(), 20000, 2, sync);
  job.mutable_workers()->set_min(2);
  absl::Notification stopped, resume;
  LocalClusterOptions options;
  options.pull_ahead = true;
  options.workers = 2;
  options.threads = 2;
  options.heartbeat = absl::Milliseconds(50);
  options.deadline = absl::Seconds(2);
  std::atomic<bool> armed{true};
  options.before_batch = [&](int worker, uint32_t, uint64_t batches) {
    if (worker != 0 || batches < 10 || !armed.exchange(false)) return;
    stopped.Notify();
    resume.WaitForNotification();
  };
  auto cluster = LocalCluster::Start(options);
  REQUIRE(cluster.ok());
  std::thread leaver([&] {
    stopped.WaitForNotification();
    std::thread releaser([&] { resume.Notify(); });
    if (drained) {
      (void)(*cluster)->DrainWorker(0, absl::Seconds(30));
    } else {
      (*cluster)->KillWorker(0);
    }
    releaser.join();
  });
  const absl::StatusOr<JobStatus> status = RunJob((*cluster)->scheduler(), job, {});
  if (armed.exchange(false)) stopped.Notify();  // the other worker had it all
  leaver.join();
  RequireExact(job, status);
}

}  // namespace
}  // namespace shoal
