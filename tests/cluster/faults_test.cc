// Clusters in one process behind a bad network and with lanes that stop, die and come back: the counting job stays
// exact.
#include <atomic>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <iostream>
#include <thread>

#include "absl/synchronization/notification.h"
#include "local/local_cluster.h"
#include "local/run_job.h"
#include "tests/testing/exact_counts.h"
#include "tests/testing/faulty_parameter_client.h"
#include "tests/testing/forwarding_parameter_client.h"
#include "tests/testing/overtaking_parameter_client.h"
#include "tests/testing/test_jobs.h"

namespace shoal {
namespace {

// For what happens at once on an idle machine and late on a busy one.
constexpr absl::Duration kPatience = absl::Seconds(30);

uint64_t Seed() {
  const char* text = std::getenv("SHOAL_TEST_SEED");
  const uint64_t seed = text == nullptr ? 1 : std::strtoull(text, nullptr, 10);
  std::cout << "seed " << seed << " (SHOAL_TEST_SEED)\n";
  return seed;
}

TEST_CASE("Faults: requests lost, replies lost, calls doubled, delayed and late leave the counting job exact",
          "[cluster]") {
  const std::string sync = GENERATE("asp", "{ssp: 2}", "{bsp: 4}");
  const uint64_t seed = Seed();
  TempDir dir;
  const Job job = CountingJob(dir.path(), 20000, 2, sync);
  auto counters = std::make_shared<FaultCounters>();
  LocalClusterOptions options;
  options.pull_ahead = sync == "{ssp: 2}" || (sync == "asp" && GENERATE(false, true));
  FaultRates rates;
  rates.request_lost = rates.reply_lost = rates.doubled = rates.delayed = rates.late = 0.01;
  options.servers = 2;
  options.workers = 2;
  options.threads = 2;
  std::atomic<uint64_t> clients{0};
  options.wrap = [&](int, std::unique_ptr<ParameterClient> inner) {
    return std::make_unique<FaultyParameterClient>(std::move(inner), FaultPlan::Uniform(seed + clients++, rates),
                                                   counters);
  };
  auto cluster = LocalCluster::Start(options);
  REQUIRE(cluster.ok());
  const absl::StatusOr<JobStatus> status = RunJob((*cluster)->scheduler(), job, {});
  RequireExact(job, status);
  for (Fault fault : {Fault::kRequestLost, Fault::kReplyLost, Fault::kDoubled, Fault::kDelayed, Fault::kLate}) {
    INFO("fault " << static_cast<int>(fault));
    REQUIRE(counters->Of(fault) > 0);
  }
  REQUIRE(status->counters().duplicate() > 0);
  REQUIRE(status->counters().retries() > 0);
}

// Answers some OpenSplits with a watermark that is off, as a reply that was overtaken would, and sends lanes to open
// their split again half-way: they must recompute what the partitions ask for.
class WrongWatermarkClient : public ForwardingParameterClient {
 public:
  using ForwardingParameterClient::ForwardingParameterClient;
  void OpenSplit(const OpenSplitRequest* request, absl::Duration timeout, OpenSplitReply* reply, Done done) override {
    ForwardingParameterClient::OpenSplit(request, timeout, reply, [this, reply, done](absl::Status status) {
      if (status.ok() && reply->watermarks.size() == 1 && reply->watermarks[0] != kSplitDone) {
        uint64_t& watermark = reply->watermarks[0];
        // Not every other one: a lane that opens the next split ahead may take turns between two. The shortest split
        // has 32 records.
        if (watermark == 0 && fresh_++ % 3 == 0) watermark = 20;
        if (watermark >= 100 && begun_++ % 2 == 0) watermark -= 50;
      }
      done(status);
    });
  }
  void Push(const PushRequest* request, absl::Duration timeout, PushReply* reply, Done done) override {
    ForwardingParameterClient::Push(request, timeout, reply, [this, request, reply, done](absl::Status status) {
      if (!request->end_of_split && pushes_++ % 7 == 0) reply->outcome = RequestOutcome::kStaleMap;
      done(status);
    });
  }

 private:
  std::atomic<uint64_t> fresh_{0}, begun_{0}, pushes_{0};
};

TEST_CASE("Faults: a lane with a wrong idea of the watermark is told MISALIGNED or OUT_OF_ORDER and recomputes",
          "[cluster]") {
  TempDir dir;
  const Job job = CountingJob(dir.path(), 20000, 2, "asp");
  LocalClusterOptions options;
  options.pull_ahead = GENERATE(false, true);
  options.workers = 2;
  options.wrap = [](int, std::unique_ptr<ParameterClient> inner) {
    return std::make_unique<WrongWatermarkClient>(std::move(inner));
  };
  auto cluster = LocalCluster::Start(options);
  REQUIRE(cluster.ok());
  const absl::StatusOr<JobStatus> status = RunJob((*cluster)->scheduler(), job, {});
  RequireExact(job, status);
  REQUIRE(status->counters().out_of_order() > 0);
  REQUIRE(status->counters().misaligned() > 0);
}

TEST_CASE("Faults: pushes that overtake the one before are refused, and both count once", "[cluster]") {
  const std::string sync = GENERATE("asp", "{ssp: 2}");
  const uint64_t seed = Seed();
  TempDir dir;
  const Job job = CountingJob(dir.path(), 20000, 2, sync);
  LocalClusterOptions options;
  options.servers = 2;
  options.workers = 2;
  std::atomic<uint64_t> clients{0}, overtaken{0};
  options.wrap = [&](int, std::unique_ptr<ParameterClient> inner) {
    return std::make_unique<OvertakingParameterClient>(std::move(inner), seed + clients++, 0.1,
                                                       [&overtaken](uint64_t) { ++overtaken; });
  };
  auto cluster = LocalCluster::Start(options);
  REQUIRE(cluster.ok());
  const absl::StatusOr<JobStatus> status = RunJob((*cluster)->scheduler(), job, {});
  RequireExact(job, status);
  REQUIRE(overtaken > 0);
  REQUIRE(status->counters().out_of_order() > 0);
  REQUIRE(status->counters().misaligned() == 0);
}

// A server whose partitions come and go: now and then it answers that it does not own them or does not have the job, as
// servers do while partitions move or are restored.
class UnsteadyClient : public ForwardingParameterClient {
 public:
  UnsteadyClient(std::unique_ptr<ParameterClient> inner, uint64_t seed)
      : ForwardingParameterClient(std::move(inner)), seed_(seed) {}
  void OpenSplit(const OpenSplitRequest* request, absl::Duration timeout, OpenSplitReply* reply, Done done) override {
    if (Answer(reply, done)) return;
    ForwardingParameterClient::OpenSplit(request, timeout, reply, std::move(done));
  }
  void Pull(const PullRequest* request, absl::Duration timeout, PullReply* reply, Done done) override {
    if (Answer(reply, done)) return;
    ForwardingParameterClient::Pull(request, timeout, reply, std::move(done));
  }
  void Push(const PushRequest* request, absl::Duration timeout, PushReply* reply, Done done) override {
    if (Answer(reply, done)) return;
    ForwardingParameterClient::Push(request, timeout, reply, std::move(done));
  }
  void Mark(const MarkRequest* request, absl::Duration timeout, MarkReply* reply, Done done) override {
    if (Answer(reply, done)) return;
    ForwardingParameterClient::Mark(request, timeout, reply, std::move(done));
  }

 private:
  // Refuses about one call in thirty; what it refuses does not reach the server.
  template <typename Reply>
  bool Answer(Reply* reply, const Done& done) {
    Random random({seed_, calls_++});
    const uint64_t fate = random.Below(60);
    if (fate > 1) return false;
    if (fate == 0) {
      reply->outcome = RequestOutcome::kStaleMap;
      done(absl::OkStatus());
    } else {
      done(absl::NotFoundError("job 1: not on this server"));
    }
    return true;
  }

  const uint64_t seed_;
  std::atomic<uint64_t> calls_{0};
};

TEST_CASE("Faults: partitions that are not there for a while cost nothing but time, evaluation included", "[cluster]") {
  const std::string sync = GENERATE("asp", "{ssp: 2}", "{bsp: 4}");
  const uint64_t seed = Seed();
  TempDir dir;
  Job job = CountingJob(dir.path(), 20000, 2, sync);
  job.mutable_data()->mutable_format()->mutable_synthetic()->set_eval_rows(2000);
  LocalClusterOptions options;
  options.pull_ahead = sync == "asp";
  options.servers = 2;
  options.workers = 2;
  options.threads = 2;
  std::atomic<uint64_t> clients{0};
  options.wrap = [&](int, std::unique_ptr<ParameterClient> inner) {
    return std::make_unique<UnsteadyClient>(std::move(inner), seed * 1000 + clients++);
  };
  auto cluster = LocalCluster::Start(options);
  REQUIRE(cluster.ok());
  const absl::StatusOr<JobStatus> status = RunJob((*cluster)->scheduler(), job, {});
  RequireExact(job, status);
  REQUIRE(status->counters().stale_map() > 0);
}

// Every fifth push arrives, and its answer says nothing about that, as when a map that is newer ends the call.
class UnansweredPushClient : public ForwardingParameterClient {
 public:
  using ForwardingParameterClient::ForwardingParameterClient;
  void Push(const PushRequest* request, absl::Duration timeout, PushReply* reply, Done done) override {
    ForwardingParameterClient::Push(request, timeout, reply, [this, reply, done](absl::Status status) {
      if (pushes_++ % 5 == 0) reply->outcome = RequestOutcome::kStaleMap;
      done(status);
    });
  }

 private:
  std::atomic<uint64_t> pushes_{0};
};

TEST_CASE("Faults: a batch whose push all partitions took without an answer is in the metrics, too", "[cluster]") {
  const std::string sync = GENERATE("asp", "{ssp: 2}", "{bsp: 4}");
  TempDir dir;
  const Job job = CountingJob(dir.path(), 20000, 2, sync);
  LocalClusterOptions options;
  options.workers = 2;
  options.wrap = [](int, std::unique_ptr<ParameterClient> inner) {
    return std::make_unique<UnansweredPushClient>(std::move(inner));
  };
  auto cluster = LocalCluster::Start(options);
  REQUIRE(cluster.ok());
  const absl::StatusOr<JobStatus> status = RunJob((*cluster)->scheduler(), job, {});
  RequireExact(job, status);
  CHECK(status->examples() == 40000);
}

// Holds back one push of a zombie until somebody else has opened its split, then keeps what the server said to it.
struct HeldPush {
  std::atomic<bool> armed{true};
  std::atomic<bool> released{false};
  std::atomic<uint64_t> split{~uint64_t{0}};
  absl::Notification held, release, answered;
  bool fenced = false;

  void Release() {
    if (!released.exchange(true)) release.Notify();
  }
};

class HoldingClient : public ForwardingParameterClient {
 public:
  HoldingClient(std::unique_ptr<ParameterClient> inner, HeldPush* hold)
      : ForwardingParameterClient(std::move(inner)), hold_(*hold) {}
  void Push(const PushRequest* request, absl::Duration timeout, PushReply* reply, Done done) override {
    if (request->begin == 0 || !hold_.armed.exchange(false)) {
      ForwardingParameterClient::Push(request, timeout, reply, std::move(done));
      return;
    }
    hold_.split = request->split;
    hold_.held.Notify();
    hold_.release.WaitForNotification();
    ForwardingParameterClient::Push(request, timeout, reply, [this, reply, done](absl::Status status) {
      hold_.fenced = status.ok() && reply->outcome == RequestOutcome::kFenced;
      for (const PartitionAnswer& answer : reply->exceptions) hold_.fenced |= answer.outcome == PushOutcome::kFenced;
      hold_.answered.Notify();
      done(status);
    });
  }

 private:
  HeldPush& hold_;
};

// Lets the zombie go as soon as this client has opened its split, and goes on when the zombie has its answer: later the
// job may be over and forgotten.
class SuccessorClient : public ForwardingParameterClient {
 public:
  SuccessorClient(std::unique_ptr<ParameterClient> inner, HeldPush* hold)
      : ForwardingParameterClient(std::move(inner)), hold_(*hold) {}
  void OpenSplit(const OpenSplitRequest* request, absl::Duration timeout, OpenSplitReply* reply, Done done) override {
    const uint64_t split = request->split;
    ForwardingParameterClient::OpenSplit(request, timeout, reply, [this, split, done](absl::Status status) {
      if (status.ok() && split == hold_.split) {
        hold_.Release();
        hold_.answered.WaitForNotificationWithTimeout(kPatience);
      }
      done(status);
    });
  }

 private:
  HeldPush& hold_;
};

TEST_CASE("Faults: the push of a zombie whose split was taken over is FENCED, and nothing is counted twice",
          "[cluster]") {
  const std::string sync = GENERATE("asp", "{ssp: 2}", "{bsp: 2}");
  TempDir dir;
  const Job job = CountingJob(dir.path(), 20000, 1, sync);
  HeldPush hold;
  LocalClusterOptions options;
  options.servers = 1;
  options.workers = 2;
  options.heartbeat = absl::Milliseconds(50);
  options.deadline = absl::Seconds(1);
  options.wrap = [&](int worker, std::unique_ptr<ParameterClient> inner) -> std::unique_ptr<ParameterClient> {
    if (worker == 0) return std::make_unique<HoldingClient>(std::move(inner), &hold);
    return std::make_unique<SuccessorClient>(std::move(inner), &hold);
  };
  auto cluster = LocalCluster::Start(options);
  REQUIRE(cluster.ok());
  std::thread zombie([&] {
    hold.held.WaitForNotification();
    (*cluster)->KillWorker(0);  // heartbeats end; the lane hangs in its push
  });
  const absl::StatusOr<JobStatus> status = RunJob((*cluster)->scheduler(), job, {});
  hold.Release();  // for the case that nobody took the split
  zombie.join();
  hold.answered.WaitForNotification();
  INFO(sync);
  RequireExact(job, status);
  REQUIRE(hold.fenced);
}

TEST_CASE("Faults: with ssp nobody is more than s ahead of a stopped lane, and all go on once it is dead",
          "[cluster]") {
  constexpr uint64_t kStaleness = 3;
  constexpr uint64_t kStopAt = 10;
  TempDir dir;
  Job job = CountingJob(dir.path(), 40000, 1, "{ssp: 3}");
  job.mutable_workers()->set_min(3);
  absl::Notification stopped, resume;
  std::atomic<uint64_t> stopped_at{0}, ahead{0};
  std::atomic<bool> dead{false};
  LocalClusterOptions options;
  options.workers = 3;
  options.heartbeat = absl::Milliseconds(50);
  options.deadline = absl::Seconds(2);  // a starved machine must not declare the wrong lane dead
  options.before_batch = [&](int worker, uint32_t, uint64_t batches) {
    if (worker == 0 && batches >= kStopAt && !stopped.HasBeenNotified()) {
      stopped_at = batches;
      stopped.Notify();
      resume.WaitForNotification();
    }
    // From the start: the others may be at the bound before the lane has stopped.
    if (worker != 0 && !dead) {
      uint64_t seen = ahead;
      while (batches > seen && !ahead.compare_exchange_weak(seen, batches)) {
      }
    }
  };
  auto cluster = LocalCluster::Start(options);
  REQUIRE(cluster.ok());
  std::thread killer([&] {
    stopped.WaitForNotification();
    // The others run into the bound: they stop asking for batches until the lane is declared dead.
    const Clock& clock = Clock::Steady();
    const absl::Duration end = clock.Now() + kPatience;
    while (ahead < stopped_at + kStaleness && clock.Now() < end) std::this_thread::yield();
    dead = true;  // from here on the bound is off
    (*cluster)->KillWorker(0);
  });
  std::thread releaser([&] {
    stopped.WaitForNotification();
    while (!dead) std::this_thread::yield();
    resume.WaitForNotificationWithTimeout(absl::Seconds(4));
    if (!resume.HasBeenNotified()) resume.Notify();
  });
  const absl::StatusOr<JobStatus> status = RunJob((*cluster)->scheduler(), job, {});
  killer.join();
  releaser.join();
  RequireExact(job, status);
  REQUIRE(ahead == stopped_at + kStaleness);
  uint64_t largest = 0, batches = 0;
  for (const auto& [staleness, count] : status->counters().clock_staleness().count()) {
    largest = std::max(largest, staleness);
    batches += count;
  }
  REQUIRE(batches > 300);
  REQUIRE(largest == kStaleness);
}

}  // namespace
}  // namespace shoal
