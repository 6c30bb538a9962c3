#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <thread>

#include "base/random.h"
#include "server/test_cluster.h"

namespace shoal {
namespace {

constexpr uint32_t kLanes = 3;
constexpr uint64_t kRounds = 6;
constexpr uint64_t kKeys = 40;

TestBatch Contribution(uint32_t lane, uint64_t round) { return BspContribution(lane, round, kKeys); }

using Digests = std::map<std::string, std::pair<uint64_t, uint64_t>>;

// Runs all rounds, lanes arriving in an order drawn from the seed.
Digests Run(int servers, uint64_t seed) {
  TestCluster cluster(BspConfig(kLanes), servers);
  for (uint64_t round = 0; round < kRounds; ++round) {
    for (uint32_t lane : Permutation<uint32_t>(kLanes, {seed, round})) cluster.Push(Contribution(lane, round));
    for (uint32_t lane : Permutation<uint32_t>(kLanes, {seed, round, 1})) cluster.Mark(lane, round);
  }
  return cluster.Digest();
}

TEST_CASE("bsp: the digest depends neither on the order of arrival nor on the number of servers", "[server][unit]") {
  const Digests expected = Run(1, 0);
  CHECK(expected.at("t").second > 30);
  for (uint64_t seed = 1; seed < 6; ++seed) CHECK(Run(1, seed) == expected);
  CHECK(Run(2, 1) == expected);
  CHECK(Run(3, 2) == expected);
}

TEST_CASE("bsp: folding equals a plain loop over lanes, bit for bit", "[server][unit]") {
  TestCluster cluster(BspConfig(kLanes), 2);
  std::map<uint64_t, std::vector<float>> weights, squares;
  for (uint64_t key = 0; key < kKeys; ++key) {
    weights[key] = cluster.Read(key);
    squares[key] = {0, 0};
  }
  for (uint64_t round = 0; round < kRounds; ++round) {
    std::map<uint64_t, std::vector<float>> sums;
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      for (const auto& [key, gradient] : Contribution(lane, round).rows) {
        auto [it, fresh] = sums.emplace(key, gradient);
        for (int c = 0; c < 2 && !fresh; ++c) it->second[c] += gradient[c];
      }
    }
    for (const auto& [key, sum] : sums) {
      for (int c = 0; c < 2; ++c) {
        const float g = sum[c] / 9.0f;
        squares[key][c] += g * g;
        weights[key][c] -= 0.3f * g / (std::sqrt(squares[key][c]) + 1e-6f);
      }
    }
    for (uint32_t lane : {2u, 0u, 1u}) cluster.Push(Contribution(lane, round));
    for (uint32_t lane : {1u, 2u, 0u}) cluster.Mark(lane, round);
  }
  for (uint64_t key = 0; key < kKeys; ++key) CHECK(cluster.Read(key) == weights[key]);
  CHECK(cluster.server(0).ReportDone(1)->at(0).rounds_applied() == kRounds);
  CHECK(cluster.server(0).ReportDone(1)->at(0).examples() == 9 * kRounds);
}

TEST_CASE("bsp: a round waits for all contributions and marks; repeats are duplicates", "[server][unit]") {
  TestCluster cluster(BspConfig(kLanes), 1);
  PullRequest next;
  next.header = cluster.Header(1);
  next.round = 1;
  next.has_mark = true;
  next.dense = false;
  PullReply pulled;
  int answers = 0;
  cluster.Push(Contribution(0, 0));
  cluster.Open(9, 9, 0, 0, 0);
  cluster.Open(9, 9, 1, 0, 1);
  cluster.server(0).Pull(&next, absl::Seconds(1), &pulled, [&](absl::Status s) { answers += s.ok(); });
  // Lane 0 was taken over under lease 9; its contribution of lease 1 stays valid, a repeat is a duplicate.
  TestBatch again = Contribution(0, 0);
  again.lease = 9;
  PushReply reply = cluster.PushTo(0, again);
  REQUIRE(reply.exceptions.size() == 8);
  CHECK(reply.exceptions[0].outcome == PushOutcome::kDuplicate);
  CHECK(cluster.PushTo(0, Contribution(0, 0)).exceptions.at(0).outcome == PushOutcome::kFenced);
  TestBatch early = Contribution(1, 0);
  early.lease = 9;
  early.round = 1;
  CHECK(cluster.PushTo(0, early).exceptions.at(0).outcome == PushOutcome::kOutOfOrder);
  TestBatch second = Contribution(1, 0);
  second.lease = 9;
  cluster.Push(second);
  cluster.Push(Contribution(2, 0));
  CHECK(cluster.Read(1) == TestCluster(BspConfig(kLanes), 1).Read(1));
  cluster.Mark(1, 0);
  CHECK(answers == 0);
  cluster.Mark(2, 0);  // lane 0's mark came with its pull
  CHECK(answers == 1);
  const OpenSplitReply after = cluster.Open(9, 9, 0, 0, 0);
  CHECK(after.rounds_applied == 1);
  CHECK(after.watermarks == std::vector<uint64_t>{4});
  CHECK(cluster.PushTo(0, again).exceptions.at(0).outcome == PushOutcome::kDuplicate);
  cluster.Mark(0, 5);
  CHECK(cluster.last().code() == absl::StatusCode::kFailedPrecondition);
}

TEST_CASE("bsp: what the guard refuses of a round is blamed on the lanes whose own gradient is bad", "[server][unit]") {
  JobConfig config = BspConfig(kLanes);
  config.mutable_job()->mutable_guard()->set_max_abs(10);
  config.mutable_plan()->mutable_schema()->add_slots("a");
  config.mutable_plan()->mutable_schema()->add_slots("b");
  TestCluster cluster(config, 1);
  const auto round = [&](uint64_t number, const std::map<uint32_t, TestBatch>& special) {
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      TestBatch batch = Contribution(lane, number);
      const auto it = special.find(lane);
      if (it != special.end()) {
        batch.rows = it->second.rows;
        batch.slots = it->second.slots;
      }
      cluster.Push(batch);
    }
    for (uint32_t lane = 0; lane < kLanes; ++lane) cluster.Mark(lane, number);
    return cluster.server(0).Report(1);
  };
  CHECK(round(0, {}).refused_size() == 0);
  TestBatch bad;
  bad.rows[100] = {0, std::nanf("")};
  bad.rows[101] = {200, 0};  // over 9 examples: 22.2
  bad.slots[101] = 1;
  ServerJobReport report = round(1, {{1, bad}});
  REQUIRE(report.refused_size() == 1);
  CHECK(report.guard_refused() == 2);
  const RefusedBatch& own = report.refused(0);
  CHECK((own.lane() == 2 && own.split() == 1 && own.begin() == 4 && own.end() == 8 && !own.round()));
  REQUIRE(own.rows_size() == 2);
  CHECK((own.rows(0).slot_index() == 0 && own.rows(0).rows() == 1));
  CHECK((own.rows(1).slot_index() == 1 && own.rows(1).rows() == 1));
  // 50 / 9 from each lane is fine, their sum is not: nobody's own gradient is to blame.
  TestBatch half;
  half.rows[100] = {50, 0};
  report = round(2, {{0, half}, {2, half}});
  REQUIRE(report.refused_size() == 1 + kLanes);
  CHECK(report.refused_batches() == 1 + kLanes);
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    const RefusedBatch& shared = report.refused(1 + static_cast<int>(lane));
    CHECK((shared.round() && shared.lane() == lane + 1 && shared.begin() == 8 && shared.rows_size() == 1));
  }
}

TEST_CASE("bsp: rounds go on without lanes that announced their last", "[server][unit]") {
  TestCluster cluster(BspConfig(kLanes), 1);
  for (uint32_t lane = 0; lane < kLanes; ++lane) cluster.Push(Contribution(lane, 0));
  cluster.Mark(0, 0, true);
  cluster.Mark(1, 0);
  cluster.Mark(2, 0);
  MarkRequest never;
  never.header = cluster.Header(1);
  never.logical_lane = 1;
  never.has_round = false;
  never.last = true;
  MarkReply reply;
  cluster.server(0).Mark(&never, &reply, [](absl::Status s) { CHECK(s.ok()); });
  cluster.Push(Contribution(2, 1));
  cluster.Mark(2, 1);
  CHECK(cluster.server(0).ReportDone(1)->at(0).rounds_applied() == 2);
  CHECK(cluster.server(0).ReportDone(1)->at(0).examples() == 12);
}

TEST_CASE("bsp: a part is cut at its round, the next round waits, and a rollback ends in the same bits",
          "[server][unit]") {
  const std::string root = FreshDirectory("cut");
  TestCluster cluster(BspConfig(kLanes), 1);
  CheckpointTask task;
  task.set_dir(root);
  task.set_name("r2");
  task.set_cut_at_round(true);
  task.set_cut_round(2);
  absl::StatusOr<PartInfo> part = absl::UnknownError("not written");
  std::thread writer([&] { part = cluster.server(0).WritePart(1, task, absl::Seconds(60)); });
  for (uint64_t round = 0; round < kRounds; ++round) {
    for (uint32_t lane = 0; lane < kLanes; ++lane) cluster.Push(Contribution(lane, round));
    for (uint32_t lane = 0; lane < kLanes; ++lane) cluster.Mark(lane, round);
    // Whether the writer came before or after round 2, it must not miss it: wait for it there.
    if (round == 1) writer.join();
  }
  REQUIRE(part.ok());
  CHECK(part->done(0).rounds_applied() == 2);
  Manifest manifest;
  *manifest.add_parts() = *part;
  manifest.set_rounds_applied(2);
  const absl::StatusOr<std::string> path = CommitCheckpoint(root, "r2", manifest, 3);
  REQUIRE(path.ok());
  TestCluster back(BspConfig(kLanes), 2, *path, 2);
  REQUIRE(back.prepared().ok());
  CHECK(back.Open(1, 2, 0).watermarks == std::vector<uint64_t>{8});
  for (uint64_t round = 2; round < kRounds; ++round) {
    for (uint32_t lane = 0; lane < kLanes; ++lane) {
      TestBatch batch = Contribution(lane, round);
      batch.lease = 2;
      back.Push(batch);
    }
    for (uint32_t lane = 0; lane < kLanes; ++lane) back.Mark(lane, round);
  }
  CHECK(back.Digest() == cluster.Digest());
  task.set_cut_round(3);
  CHECK(cluster.server(0).WritePart(1, task, absl::Seconds(1)).status().code() ==
        absl::StatusCode::kFailedPrecondition);
  task.set_cut_round(100);
  CHECK(cluster.server(0).WritePart(1, task, absl::Milliseconds(1)).status().code() ==
        absl::StatusCode::kDeadlineExceeded);
  // Once all lanes have announced their last round, nobody waits for one behind it.
  absl::Status outcome;
  std::thread cut([&] { outcome = cluster.server(0).WritePart(1, task, absl::Hours(1)).status(); });
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    MarkRequest last;
    last.header = cluster.Header(1);
    last.logical_lane = lane;
    last.round = kRounds - 1;
    last.last = true;
    MarkReply reply;
    cluster.server(0).Mark(&last, &reply, [](absl::Status status) { REQUIRE(status.ok()); });
  }
  cut.join();
  CHECK(outcome.code() == absl::StatusCode::kDeadlineExceeded);
  CHECK_THAT(std::string(outcome.message()), Catch::Contains("in all"));
}

}  // namespace
}  // namespace shoal
