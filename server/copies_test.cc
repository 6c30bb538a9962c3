// Partitions that are copied several at a time, by threads, over a network that loses, doubles, delays and reorders.
#include <atomic>
#include <catch2/catch.hpp>
#include <deque>
#include <iostream>
#include <thread>

#include "base/clock.h"
#include "base/random.h"
#include "base/side_by_side.h"
#include "server/test_cluster.h"

namespace shoal {
namespace {

constexpr uint64_t kKeys = 400;

TEST_CASE("SideBySide: all things are done, within the bounds, and the first error ends it", "[server][unit]") {
  const uint32_t at_once = GENERATE(1, 3, 8);
  constexpr size_t kCount = 40;
  constexpr uint64_t kMost = 10;
  const auto bytes_of = [](size_t i) -> uint64_t { return i == 7 ? 25 : 1 + i % 5; };  // one is too large by itself
  std::atomic<uint64_t> bytes{0}, under_way{0}, done{0};
  std::atomic<bool> kept{true};
  const auto work = [&](size_t i) {
    const uint64_t now = ++under_way, held = bytes += bytes_of(i);
    if (now > at_once || (held > kMost && now > 1)) kept = false;
    std::this_thread::yield();
    ++done;
    bytes -= bytes_of(i);
    --under_way;
    return absl::OkStatus();
  };
  REQUIRE(SideBySide(kCount, at_once, kMost, bytes_of, work).ok());
  CHECK(done == kCount);
  CHECK(kept);
  done = 0;
  const absl::Status status = SideBySide(kCount, at_once, kMost, bytes_of, [&](size_t i) {
    ++done;
    return i < 5 ? absl::OkStatus() : absl::AbortedError("five");
  });
  CHECK(absl::IsAborted(status));
  CHECK(done <= 5 + at_once);
}

// Every message has a fate; what is doubled or late is delivered by another thread, between and after others.
class BadNetwork {
 public:
  explicit BadNetwork(uint64_t seed) : random_({seed, 9}) {}
  ReplicaConnector Connector() {
    return ConnectorOf([this](uint64_t process, const ReplicaRequest& request) { return Send(process, request); });
  }
  // Delivers while it lives, which must be within the life of the cluster. REQUIRES: nothing is sent yet.
  class Postman {
   public:
    Postman(BadNetwork* network, TestCluster* cluster) : network_(*network) {
      network_.cluster_ = cluster;
      thread_ = std::thread([this] { network_.DeliverLate(); });
    }
    ~Postman() {
      network_.end_ = true;
      thread_.join();
    }

   private:
    BadNetwork& network_;
    std::thread thread_;
  };
  void BeCalm() { calm_ = true; }
  uint64_t most_at_once() const {
    MutexLock lock(&mu_);
    return most_at_once_;
  }

 private:
  absl::StatusOr<ReplicaReply> Deliver(uint64_t process, const ReplicaRequest& request) {
    return cluster_->server(static_cast<int>(process) - 100).Replicate(request);
  }
  absl::StatusOr<ReplicaReply> Send(uint64_t process, const ReplicaRequest& request) {
    uint64_t fate = 9;
    {
      MutexLock lock(&mu_);
      most_at_once_ = std::max(most_at_once_, ++at_once_);
      met_.SignalAll();
      // The first message waits for another one, so that two are under way at a time whoever runs when.
      const absl::Duration end = Clock::Steady().Now() + absl::Seconds(20);
      while (most_at_once_ < 2 && Clock::Steady().Now() < end) met_.WaitFor(&mu_, absl::Seconds(1));
      if (!calm_) fate = random_.Below(8);
      if (fate < 2) late_.emplace_back(process, request);
    }
    absl::StatusOr<ReplicaReply> reply = absl::UnavailableError("late");
    // 0: it comes, too, but late; 1: twice, the second time late.
    if (fate != 0 && fate != 2) reply = Deliver(process, request);
    if (fate == 3) reply = absl::UnavailableError("reply lost");
    MutexLock lock(&mu_);
    --at_once_;
    return reply;
  }
  void DeliverLate() {
    while (!end_) {
      std::pair<uint64_t, ReplicaRequest> message;
      {
        MutexLock lock(&mu_);
        if (late_.size() > 3) {
          std::swap(late_.front(), late_[random_.Below(late_.size())]);
          message = std::move(late_.front());
          late_.pop_front();
        }
      }
      if (message.first != 0) (void)Deliver(message.first, message.second);
      std::this_thread::yield();
    }
  }

  TestCluster* cluster_ = nullptr;
  mutable Mutex mu_;
  Random random_ ABSL_GUARDED_BY(mu_);
  std::deque<std::pair<uint64_t, ReplicaRequest>> late_ ABSL_GUARDED_BY(mu_);
  CondVar met_;
  uint64_t at_once_ ABSL_GUARDED_BY(mu_) = 0, most_at_once_ ABSL_GUARDED_BY(mu_) = 0;
  std::atomic<bool> calm_{false}, end_{false};
};

TestBatch Batch(uint64_t number) {
  TestBatch batch;
  batch.begin = 10 * number;
  batch.end = 10 * number + 10;
  for (uint64_t key = number % 7; key < kKeys; ++key) batch.rows[key] = {-1, -static_cast<float>(number + 1)};
  batch.dense = -1;
  return batch;
}

TEST_CASE("Copies: several at a time over a bad network, while pushes go on, are what the source is",
          "[server][unit]") {
  const std::vector<uint64_t> seeds = TestSeeds(12);
  uint64_t copied = 0, most_at_once = 0;
  for (uint64_t seed : seeds) {
    INFO("seed " << seed << " (SHOAL_TEST_SEED)");
    BadNetwork network(seed);
    JobConfig config = TestCluster::DefaultConfig();
    config.mutable_job()->set_partitions(16);
    TestCluster cluster(config, 2, "", 1, network.Connector());
    const BadNetwork::Postman postman(&network, &cluster);
    cluster.Publish();
    uint64_t next = 0;
    for (; next < 3; ++next) cluster.Push(Batch(next));
    const std::vector<uint32_t> moved = cluster.PartitionsOf(0);
    const bool backup = seed % 2 == 0;
    cluster.Publish(0, {9});
    // Lanes do not stand still meanwhile. What is frozen refuses a batch, which is then sent to the new owner.
    std::atomic<bool> stop{false};
    uint64_t whole = next;
    std::thread lane([&] {
      for (bool served = true; !stop; std::this_thread::yield()) {
        if (served && whole < 200) served = cluster.PushTo(0, Batch(whole)).exceptions.empty() && ++whole > 0;
        cluster.clock().Advance(absl::Milliseconds(100));
        cluster.server(0).Tick();
      }
    });
    const absl::Status status = cluster.Copy(backup ? Task::ADD_BACKUP : Task::MOVE_PARTITIONS, 9, 0, moved, 1);
    stop = true;
    lane.join();
    network.BeCalm();
    most_at_once = std::max(most_at_once, network.most_at_once());
    // A late message may have ended the copy; then the source goes on, and a second attempt has a calm network.
    if (!status.ok()) {
      cluster.Publish(0, {10});
      REQUIRE(cluster.Copy(backup ? Task::ADD_BACKUP : Task::MOVE_PARTITIONS, 10, 0, moved, 1).ok());
    } else {
      ++copied;
    }
    cluster.clock().Advance(absl::Seconds(1));
    cluster.server(0).Tick();
    cluster.Give(moved, 1);
    cluster.Publish();
    // The other partitions of server 1 lack what only server 0 was sent; what has it answers DUPLICATE.
    for (uint64_t number = next; number <= whole; ++number) cluster.PushTo(1, Batch(number));
    for (uint64_t key = 0; key < kKeys; ++key) {
      std::vector<float> expected = {0, 0};
      for (uint64_t number = 0; number <= whole; ++number) {
        if (key < number % 7) continue;
        expected[0] += 1;
        expected[1] += static_cast<float>(number + 1);
      }
      INFO("key " << key);
      REQUIRE(cluster.Read(key) == expected);
    }
  }
  std::cout << copied << " copied at the first attempt, up to " << most_at_once << " messages at a time\n";
  if (seeds.size() == 1) return;
  CHECK(copied > 0);
  CHECK(most_at_once > 1);
}

}  // namespace
}  // namespace shoal
