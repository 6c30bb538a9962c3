// Backups with less memory than their primaries want: pushes are refused before anything is applied.
#include <catch2/catch.hpp>
#include <iostream>
#include <set>

#include "base/random.h"
#include "server/test_cluster.h"

namespace shoal {
namespace {

constexpr uint64_t kLimit = 2 << 20;

JobConfig Limited() {
  JobConfig config = TestCluster::DefaultConfig();
  config.mutable_job()->mutable_memory()->set_hard_limit(kLimit);
  return config;
}

// Servers of one job, of which the last one has a hard limit and backs up what the first `backed` ones own.
class LimitedBackup {
 public:
  LimitedBackup(int servers, int backed) : cluster(TestCluster::DefaultConfig(), servers), backup_(servers - 1) {
    cluster.server(backup_).DropJob(1);
    REQUIRE(
        cluster.server(backup_).PrepareJob(Limited(), cluster.view(), 100 + static_cast<uint64_t>(backup_), "").ok());
    for (int s = 0; s < backed; ++s) {
      owned_.push_back(cluster.PartitionsOf(s));
      cluster.Back(owned_.back(), backup_);
      cluster.Publish(s, {7});
      REQUIRE(cluster.Copy(Task::ADD_BACKUP, 7, s, owned_.back(), backup_).ok());
    }
    cluster.Publish();
    next_.resize(static_cast<size_t>(servers), 0);
  }

  // The next batch of server s: one count for each of `keys` keys of its own, from `first` on.
  TestBatch Batch(int s, uint64_t first, uint64_t keys) {
    TestBatch batch;
    batch.split = static_cast<uint64_t>(s);
    batch.begin = 10 * next_[static_cast<size_t>(s)];
    batch.end = batch.begin + 10;
    for (uint64_t key = first; batch.rows.size() < keys; ++key) {
      if (OwnerOf(key) == s) batch.rows[key] = {-1, -static_cast<float>(batch.end)};
    }
    return batch;
  }
  int OwnerOf(uint64_t key) const { return static_cast<int>(view().owner(static_cast<int>(PartitionOfKey(key, 8)))); }
  const JobView& view() const { return const_cast<TestCluster&>(cluster).view(); }

  // True when it counts; false: it was refused or is to be sent again.
  bool Push(int s, const TestBatch& batch) {
    const int before = cluster.outstanding();
    const PushReply reply = cluster.PushTo(s, batch);
    if (cluster.outstanding() != before || !cluster.last().ok()) return false;
    for (const PartitionAnswer& answer : reply.exceptions) REQUIRE(answer.outcome == PushOutcome::kDuplicate);
    ++next_[static_cast<size_t>(s)];
    for (const auto& [key, gradient] : batch.rows) {
      counts_[key].first += 1;
      counts_[key].second -= gradient[1];
    }
    return true;
  }
  // Refused for memory, and not because the backup had still to be asked.
  bool Full(int s, const TestBatch& batch) {
    for (int tries = 0; tries < 2; ++tries) {
      if (Push(s, batch)) return false;
      REQUIRE(cluster.last().code() == absl::StatusCode::kResourceExhausted);
    }
    return true;
  }
  uint64_t Used() { return cluster.server(backup_).Report(1).bytes(); }
  // Where server s stands in its split.
  std::vector<uint64_t> Watermarks(int s) { return cluster.Open(1, 1, static_cast<uint64_t>(s), s).watermarks; }
  uint64_t next(int s) const { return next_[static_cast<size_t>(s)]; }

  void CheckCounts() {
    for (const auto& [key, sums] : counts_) {
      INFO("key " << key);
      REQUIRE(cluster.Read(key) == std::vector<float>{sums.first, sums.second});
    }
  }
  std::set<std::pair<std::string, uint64_t>> DigestOf(const std::vector<int>& servers) {
    std::map<std::string, uint64_t> sums;
    for (int s : servers) {
      const std::vector<TableDigest> digests = cluster.server(s).Digest(1).value();
      for (const TableDigest& digest : digests) sums[digest.table()] += digest.sum();
    }
    return {sums.begin(), sums.end()};
  }
  // The backup takes everything over and must be what the owners were.
  void Promote() {
    std::vector<int> all = {backup_};
    for (size_t s = 0; s < owned_.size(); ++s) all.push_back(static_cast<int>(s));
    const auto before = DigestOf(all);
    for (int s = 0; s < static_cast<int>(owned_.size()); ++s) {
      cluster.Kill(s);
      cluster.Back(owned_[static_cast<size_t>(s)], -1);
      cluster.Give(owned_[static_cast<size_t>(s)], backup_);
    }
    cluster.server(backup_).UpdateView(cluster.view());
    CHECK(DigestOf({backup_}) == before);
    CheckCounts();
  }

  TestCluster cluster;

 private:
  const int backup_;
  std::vector<std::vector<uint32_t>> owned_;            // by server
  std::vector<uint64_t> next_;                          // batch, by server
  std::map<uint64_t, std::pair<float, float>> counts_;  // by key
};

TEST_CASE("Backup: a push that it has no memory for is refused before its primary applies it", "[server][unit]") {
  LimitedBackup limited(3, 1);
  TestCluster& cluster = limited.cluster;
  const uint64_t keys = GENERATE(20, 400);
  REQUIRE(limited.Push(2, limited.Batch(2, 0, 10000)));
  uint64_t first = 0;
  TestBatch refused;
  for (;; first += 10 * keys) {
    refused = limited.Batch(0, first, keys);
    if (limited.Full(0, refused)) break;
    REQUIRE(limited.Used() <= kLimit);
  }
  std::cout << limited.next(0) << " batches of " << keys << " new keys: " << limited.Used() << " of " << kLimit
            << " bytes\n";
  // Most of it was used, but for what slabs and indexes may still take.
  CHECK(limited.Used() > kLimit / 2);
  if (keys == 20) CHECK(limited.Used() > kLimit * 8 / 10);
  CHECK(cluster.last().message().find("backup, process 102") != absl::string_view::npos);
  CHECK(cluster.outstanding() == 0);
  CHECK(limited.Watermarks(0) == std::vector<uint64_t>{10 * limited.next(0)});
  for (const auto& [key, gradient] : refused.rows) CHECK(cluster.Read(key) == std::vector<float>{0, 0});
  // Nobody is stuck: what needs nothing goes on, and so does the backup's own work.
  CHECK(limited.Push(0, limited.Batch(0, 0, keys)));
  CHECK(limited.Push(2, limited.Batch(2, 0, 10000)));
  SECTION("promoted, it is what the primary was") { limited.Promote(); }
  SECTION("without the backup there is no limit") {
    cluster.Back(cluster.PartitionsOf(0), -1);
    cluster.Publish();
    CHECK(limited.Push(0, limited.Batch(0, first, keys)));
    limited.CheckCounts();
  }
  SECTION("once the backup has room again, it is used") {
    // Its own partitions leave.
    const std::vector<uint32_t> own = cluster.PartitionsOf(2);
    cluster.Publish(2, {9});
    REQUIRE(cluster.Copy(Task::MOVE_PARTITIONS, 9, 2, own, 1).ok());
    cluster.Give(own, 1);
    cluster.Publish();
    const TestBatch again = limited.Batch(0, first, keys);
    CHECK_FALSE(limited.Full(0, again));
    limited.CheckCounts();
  }
}

TEST_CASE("Backup: while its copies begin anew nothing is applied that it may have no room for", "[server][unit]") {
  LimitedBackup limited(3, 1);
  TestCluster& cluster = limited.cluster;
  REQUIRE(limited.Push(0, limited.Batch(0, 0, 20)));
  // The backup has lost what it had, and says so in its answer to the next push, which waits for the new copies.
  cluster.server(2).DropJob(1);
  REQUIRE(cluster.server(2).PrepareJob(Limited(), cluster.view(), 102, "").ok());
  const TestBatch waits = limited.Batch(0, 0, 20);
  REQUIRE_FALSE(limited.Push(0, waits));
  REQUIRE(limited.Watermarks(0) == std::vector<uint64_t>{waits.end});
  TestBatch large = limited.Batch(0, 100000, 60000);
  large.begin = waits.end;
  large.end = large.begin + 10;
  cluster.PushTo(0, large);
  CHECK(cluster.last().code() == absl::StatusCode::kResourceExhausted);
  CHECK(limited.Watermarks(0) == std::vector<uint64_t>{waits.end});
  for (int second = 0; second < 3; ++second) {
    cluster.clock().Advance(absl::Seconds(1));
    cluster.server(0).Tick();
  }
  CHECK(cluster.outstanding() == 0);
  // They are here now, and have room for what is small.
  TestBatch small = limited.Batch(0, 200000, 20);
  small.begin = waits.end;
  small.end = small.begin + 10;
  cluster.PushTo(0, small);
  CHECK(cluster.last().ok());
  CHECK(limited.Watermarks(0) == std::vector<uint64_t>{small.end});
}

TEST_CASE("Backup: one that is gone is asked for no more room, one that is silent is not called full",
          "[server][unit]") {
  LimitedBackup limited(3, 1);
  TestCluster& cluster = limited.cluster;
  REQUIRE(limited.Push(0, limited.Batch(0, 0, 20)));
  int messages = 0;
  cluster.network().fate = [&](const ReplicaRequest&) {
    ++messages;
    return ReplicaFate::kLoseRequest;
  };
  const TestBatch large = limited.Batch(0, 100000, 60000);
  cluster.PushTo(0, large);
  CHECK(cluster.last().code() == absl::StatusCode::kResourceExhausted);
  CHECK(messages == 1);
  cluster.PushTo(0, large);
  CHECK(cluster.last().code() == absl::StatusCode::kUnavailable);
  CHECK(cluster.last().message().find("process 102, does not answer") != absl::string_view::npos);
  cluster.Back(cluster.PartitionsOf(0), -1);
  cluster.Publish();
  messages = 0;
  for (int second = 0; second < 5; ++second) {
    cluster.clock().Advance(absl::Seconds(1));
    cluster.server(0).Tick();
  }
  CHECK(messages == 0);
  CHECK(limited.Push(0, large));
}

TEST_CASE("Backup: of several primaries and with work of its own it stays within its limit, whatever is lost",
          "[server][unit]") {
  const std::vector<uint64_t> seeds = TestSeeds(10);
  uint64_t refused = 0, lost = 0;
  for (uint64_t seed : seeds) {
    INFO("seed " << seed << " (SHOAL_TEST_SEED)");
    LimitedBackup limited(4, 3);
    TestCluster& cluster = limited.cluster;
    Random random({seed, 5});
    bool calm = false;
    cluster.network().fate = [&](const ReplicaRequest&) {
      return calm ? ReplicaFate::kDeliver : FateOf(random.Below(10));
    };
    std::vector<TestBatch> waiting(4);
    for (int step = 0; step < 600; ++step) {
      const int s = static_cast<int>(random.Below(4));
      TestBatch& batch = waiting[static_cast<size_t>(s)];
      if (batch.rows.empty()) batch = limited.Batch(s, random.Below(400) * 1000, 1 + random.Below(600));
      if (limited.Push(s, batch)) {
        batch.rows.clear();
      } else if (absl::IsResourceExhausted(cluster.last()) && cluster.outstanding() == 0) {
        ++refused;
        batch.rows.clear();  // another one of the same records
      } else {
        ++lost;
      }
      if (random.Below(3) == 0) {
        cluster.clock().Advance(absl::Seconds(1));
        for (int t = 0; t < 4; ++t) cluster.server(t).Tick();
      }
      REQUIRE(limited.Used() <= kLimit);
    }
    calm = true;
    for (int s = 0; s < 4; ++s) {
      cluster.clock().Advance(absl::Seconds(3));
      for (int t = 0; t < 4; ++t) cluster.server(t).Tick();
      const TestBatch& batch = waiting[static_cast<size_t>(s)];
      if (!batch.rows.empty()) (void)limited.Push(s, batch);
      CHECK(limited.Watermarks(s) == std::vector<uint64_t>{10 * limited.next(s)});
    }
    REQUIRE(cluster.outstanding() == 0);
    limited.Promote();
  }
  std::cout << refused << " refused, " << lost << " lost\n";
  if (seeds.size() == 1) return;
  CHECK(refused > 100);
  CHECK(lost > 100);
}

}  // namespace
}  // namespace shoal
