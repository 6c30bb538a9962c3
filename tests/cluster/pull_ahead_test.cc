// Lanes that lease, open and pull the next split while they compute the last batch of this one.
#include <atomic>
#include <catch2/catch.hpp>
#include <memory>
#include <thread>

#include "absl/synchronization/notification.h"
#include "base/mutex.h"
#include "local/local_cluster.h"
#include "local/run_job.h"
#include "tests/testing/exact_counts.h"
#include "tests/testing/forwarding_parameter_client.h"
#include "tests/testing/test_jobs.h"

namespace shoal {
namespace {

struct Order {
  std::atomic<uint64_t> pulls{0}, pushes{0}, ends{0};
  std::atomic<uint64_t> late{0};   // pushes that were sent when no later batch's rows had been asked for
  std::atomic<uint64_t> early{0};  // pulls that were sent when the batch before had not been pushed
};

class OrderClient : public ForwardingParameterClient {
 public:
  OrderClient(std::unique_ptr<ParameterClient> inner, Order* order)
      : ForwardingParameterClient(std::move(inner)), order_(*order) {}
  void Pull(const PullRequest* request, absl::Duration timeout, PullReply* reply, Done done) override {
    if (!request->read_only) {
      ++order_.pulls;
      order_.early += order_.pulls > order_.pushes + 1;
    }
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

std::unique_ptr<LocalCluster> StartOrdered(Order* order) {
  LocalClusterOptions options;
  options.pull_ahead = true;
  options.wrap = [order](int, std::unique_ptr<ParameterClient> inner) {
    return std::make_unique<OrderClient>(std::move(inner), order);
  };
  auto cluster = LocalCluster::Start(options);
  REQUIRE(cluster.ok());
  return *std::move(cluster);
}

TEST_CASE("Pull ahead: each batch's rows are asked for before the one before is pushed, across splits and passes",
          "[cluster]") {
  TempDir dir;
  const Job job = CountingJob(dir.path(), 20000, 2, "asp");
  Order order;
  const std::unique_ptr<LocalCluster> cluster = StartOrdered(&order);
  RequireExact(job, RunJob(cluster->scheduler(), job, {}));
  REQUIRE(order.ends > 4);
  REQUIRE(order.pulls == order.pushes);
  // The very last one.
  REQUIRE(order.late == 1);
  REQUIRE(order.early == order.pulls - 1);
}

TEST_CASE("Pull ahead: a job that forbids it has rows asked for only when the batch before is pushed", "[cluster]") {
  const auto [sync, ahead] = GENERATE(table<std::string, bool>({{"asp", true},
                                                                {"{asp: {pull_ahead: false}}", false},
                                                                {"{ssp: 2}", true},
                                                                {"{ssp: {staleness: 2, pull_ahead: false}}", false},
                                                                {"{ssp: 0}", false},
                                                                {"{bsp: 1}", false}}));
  CAPTURE(sync);
  TempDir dir;
  const Job job = CountingJob(dir.path(), 20000, 1, sync);
  Order order;
  const std::unique_ptr<LocalCluster> cluster = StartOrdered(&order);
  const absl::StatusOr<JobStatus> status = RunJob(cluster->scheduler(), job, {});
  RequireExact(job, status);
  REQUIRE(order.pulls > 8);
  REQUIRE(order.early == (ahead ? order.pulls - 1 : 0));
}

// Lets two workers of one lane push in turn for a while, one batch each, and each only when the other's next push is
// computed, so that what it asked for before has been answered.
class Turns {
 public:
  static constexpr uint64_t kPushes = 100;

  void Await(int worker) {
    const MutexLock lock(&mutex_);
    ready_[worker] = true;
    changed_.SignalAll();
    while (pushes_ < kPushes && !(turn_ == worker && ready_[1 - worker])) changed_.WaitFor(&mutex_, absl::Seconds(1));
  }
  void Finish(int worker) {
    const MutexLock lock(&mutex_);
    ready_[worker] = false;
    turn_ = 1 - worker;
    ++pushes_;
    changed_.SignalAll();
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool ready_[2] ABSL_GUARDED_BY(mutex_) = {false, false};
  int turn_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t pushes_ ABSL_GUARDED_BY(mutex_) = 0;
};

class TurnsClient : public ForwardingParameterClient {
 public:
  TurnsClient(std::unique_ptr<ParameterClient> inner, int worker, Turns* turns)
      : ForwardingParameterClient(std::move(inner)), worker_(worker), turns_(*turns) {}
  void Push(const PushRequest* request, absl::Duration timeout, PushReply* reply, Done done) override {
    turns_.Await(worker_);
    ForwardingParameterClient::Push(request, timeout, reply,
                                    [this, done = std::move(done)](const absl::Status& status) mutable {
                                      turns_.Finish(worker_);
                                      done(status);
                                    });
  }

 private:
  const int worker_;
  Turns& turns_;
};

TEST_CASE("Pull ahead: without it one push of each other lane fewer comes between a lane's pull and its push",
          "[cluster]") {
  const auto [sync, between] = GENERATE(table<std::string, uint64_t>({{"asp", 2}, {"{asp: {pull_ahead: false}}", 1}}));
  CAPTURE(sync);
  TempDir dir;
  Job job = CountingJob(dir.path(), 20000, 1, sync);
  job.mutable_workers()->set_min(2);
  Turns turns;
  LocalClusterOptions options;
  options.workers = 2;
  options.pull_ahead = true;
  options.wrap = [&](int worker, std::unique_ptr<ParameterClient> inner) {
    return std::make_unique<TurnsClient>(std::move(inner), worker, &turns);
  };
  auto cluster = LocalCluster::Start(options);
  REQUIRE(cluster.ok());
  const absl::StatusOr<JobStatus> status = RunJob((*cluster)->scheduler(), job, {});
  RequireExact(job, status);
  const auto& applies = status->counters().apply_staleness().count();
  const auto found = applies.find(between);
  REQUIRE(found != applies.end());
  // Each lane's first batches have no batch before them.
  REQUIRE(found->second + 4 >= Turns::kPushes);
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
