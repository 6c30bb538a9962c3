// bsp: holds, and partitions that move with what is held for the next round.
#include <catch2/catch.hpp>

#include "base/random.h"
#include "server/test_cluster.h"

namespace shoal {
namespace {

constexpr uint32_t kLanes = 4;
constexpr uint64_t kRounds = 5;
constexpr uint64_t kKeys = 50;

TestBatch Contribution(uint32_t lane, uint64_t round) { return BspContribution(lane, round, kKeys); }

using Digests = std::map<std::string, std::pair<uint64_t, uint64_t>>;

void Round(TestCluster* cluster, uint64_t round) {
  for (uint32_t lane = 0; lane < kLanes; ++lane) cluster->Push(Contribution(lane, round));
  for (uint32_t lane = 0; lane < kLanes; ++lane) cluster->Mark(lane, round);
}

uint64_t Applied(TestCluster* cluster, int s) { return cluster->server(s).ReportDone(1)->at(0).rounds_applied(); }

TEST_CASE("bsp: rounds from the hold on wait until it is lifted", "[server][unit]") {
  TestCluster cluster(BspConfig(kLanes), 2);
  cluster.view().set_has_hold(true);
  cluster.view().set_hold_round(1);
  cluster.Publish();
  Round(&cluster, 0);
  Round(&cluster, 1);
  CHECK(Applied(&cluster, 0) == 1);
  CHECK(Applied(&cluster, 1) == 1);
  cluster.view().set_hold_round(2);
  cluster.Publish();
  CHECK(Applied(&cluster, 0) == 2);
  cluster.view().set_has_hold(false);
  cluster.Publish();
  Round(&cluster, 2);
  CHECK(Applied(&cluster, 1) == 3);
}

TEST_CASE("bsp: partitions move with what is held; the bits are those of an undisturbed run", "[server][unit]") {
  TestCluster calm(BspConfig(kLanes), 1);
  for (uint64_t round = 0; round < kRounds; ++round) Round(&calm, round);
  const Digests expected = calm.Digest();

  const bool new_server = GENERATE(false, true);
  const uint64_t seed = GENERATE(range(1, 9));
  INFO("seed " << seed << (new_server ? ", to a new server" : ""));
  Random random({static_cast<uint64_t>(seed)});
  TestCluster cluster(BspConfig(kLanes), 3);
  if (new_server) {
    const std::vector<uint32_t> theirs = cluster.PartitionsOf(2);
    cluster.server(2).DropJob(1);
    cluster.Give(theirs, 0);
    cluster.Publish();
    REQUIRE(cluster.Restore(0, theirs).ok());
  }
  constexpr uint64_t kHold = 2;
  for (uint64_t round = 0; round < kHold; ++round) Round(&cluster, round);
  cluster.view().set_has_hold(true);
  cluster.view().set_hold_round(kHold);
  cluster.Publish(0, {5});
  // Some lanes have been heard by all servers, and some of these have marked the round; one by some servers only; the
  // others by none.
  bool marked[kLanes] = {};
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    const uint64_t how = random.Below(4);
    if (how == 0) continue;
    if (how == 1) {
      cluster.PushTo(static_cast<int>(random.Below(3)), Contribution(lane, kHold));
      continue;
    }
    cluster.Push(Contribution(lane, kHold));
    if (how == 3) cluster.Mark(lane, kHold);
    marked[lane] = how == 3;
  }
  // A pull for the round after it waits at a server that keeps its partitions.
  PullRequest pull;
  pull.header = cluster.Header(1);
  pull.round = kHold + 1;
  pull.dense = false;
  PullReply pulled;
  int answers = 0;
  cluster.server(1).Pull(&pull, absl::Seconds(10), &pulled, [&](absl::Status status) { answers += status.ok(); });
  CHECK(answers == 0);
  const std::vector<uint32_t> moved = {0, 3};
  REQUIRE(cluster.Copy(Task::MOVE_PARTITIONS, 5, 0, moved, 2).ok());
  // What comes while they are frozen is sent back.
  CHECK(cluster.PushTo(0, Contribution(1, kHold)).exceptions.size() == cluster.PartitionsOf(0).size());
  cluster.Give(moved, 2);
  cluster.view().set_has_hold(false);
  cluster.Publish();
  CHECK(answers == 1);
  CHECK(pulled.outcome == RequestOutcome::kStaleMap);
  for (int s = 0; s < 3; ++s) CHECK(Applied(&cluster, s) >= kHold);
  // All lanes open again and compute the round again, also those that were heard: it is a duplicate then.
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    if (marked[lane] && random.Below(2) == 0) continue;  // went on to the next split before
    cluster.Push(Contribution(lane, kHold));
    cluster.Mark(lane, kHold);
  }
  for (int s = 0; s < 3; ++s) CHECK(Applied(&cluster, s) == kHold + 1);
  for (uint64_t round = kHold + 1; round < kRounds; ++round) Round(&cluster, round);
  CHECK(cluster.Digest() == expected);
}

TEST_CASE("bsp: what a finished move froze stays frozen as long as the hold lasts, for other moves", "[server][unit]") {
  TestCluster cluster(BspConfig(kLanes), 2);
  cluster.view().set_has_hold(true);
  cluster.view().set_hold_round(1);
  cluster.Publish(0, {5});
  Round(&cluster, 0);
  REQUIRE(cluster.Copy(Task::MOVE_PARTITIONS, 5, 0, {0}, 1).ok());
  cluster.Publish();
  CHECK(cluster.Open(1, 1, 0, 0).outcome == RequestOutcome::kStaleMap);
  SECTION("the map comes") {
    cluster.Give({0}, 1);
    cluster.view().set_has_hold(false);
    cluster.Publish();
    CHECK(cluster.server(1).ReportDone(1)->size() == 5);
  }
  SECTION("the moves are given up") {
    cluster.view().set_has_hold(false);
    cluster.Publish();
    CHECK(cluster.Open(1, 1, 0, 0).outcome == RequestOutcome::kOk);
  }
  Round(&cluster, 1);
  CHECK(Applied(&cluster, 0) == 2);
  CHECK(Applied(&cluster, 1) == 2);
}

TEST_CASE("bsp: what is held for a partition moves in messages of bounded size", "[server][unit]") {
  JobConfig config = BspConfig(kLanes);
  config.mutable_job()->set_partitions(1);
  // 3 M floats in one partition: the image has 12 MB and four contributions 48 MB.
  config.mutable_plan()->mutable_model()->mutable_tensors(0)->set_shape(0, 3'000'000);
  config.mutable_plan()->mutable_model()->mutable_tensors(0)->set_shape(1, 1);
  TestCluster calm(config, 1), cluster(config, 2);
  uint64_t largest = 0;
  cluster.network().fate = [&](const ReplicaRequest& request) {
    largest = std::max<uint64_t>(largest, request.ByteSizeLong());
    return ReplicaFate::kDeliver;
  };
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    calm.Push(Contribution(lane, 0));
    cluster.PushTo(0, Contribution(lane, 0));
  }
  cluster.view().set_has_hold(true);
  cluster.view().set_hold_round(0);
  cluster.Publish(0, {5});
  REQUIRE(cluster.Copy(Task::MOVE_PARTITIONS, 5, 0, {0}, 1).ok());
  CHECK(largest > kReplicaMessageBytes);
  CHECK(largest < kReplicaMessageBytes + 4096);
  cluster.Give({0}, 1);
  cluster.view().set_has_hold(false);
  cluster.Publish();
  for (uint32_t lane = 0; lane < kLanes; ++lane) {
    calm.Mark(lane, 0);
    cluster.Mark(lane, 0);
  }
  CHECK(Applied(&cluster, 1) == 1);
  CHECK(cluster.Digest() == calm.Digest());
}

TEST_CASE("bsp: a lane that has announced its end is known to a server that joins", "[server][unit]") {
  TestCluster cluster(BspConfig(kLanes), 2);
  const std::vector<uint32_t> theirs = cluster.PartitionsOf(1);
  cluster.server(1).DropJob(1);
  cluster.Give(theirs, 0);
  cluster.Publish(0, {5});
  REQUIRE(cluster.Restore(0, theirs).ok());
  Round(&cluster, 0);
  cluster.Mark(3, 0, /*last=*/true);
  REQUIRE(cluster.Copy(Task::MOVE_PARTITIONS, 5, 0, theirs, 1).ok());
  cluster.Give(theirs, 1);
  cluster.Publish();
  for (uint32_t lane = 0; lane < 3; ++lane) cluster.Push(Contribution(lane, 1));
  for (uint32_t lane = 0; lane < 3; ++lane) cluster.Mark(lane, 1);
  CHECK(Applied(&cluster, 0) == 2);
  CHECK(Applied(&cluster, 1) == 2);
}

TEST_CASE("bsp: a partition of another round is refused, and so is a backup", "[server][unit]") {
  TestCluster cluster(BspConfig(kLanes), 2);
  cluster.view().set_has_hold(true);
  cluster.view().set_hold_round(0);
  // Server 1 has not heard of the hold.
  ClusterView view;
  *view.add_jobs() = cluster.view();
  view.add_tasks()->set_id(5);
  cluster.server(0).UpdateView(view, 100);
  Round(&cluster, 0);
  CHECK(Applied(&cluster, 0) == 0);
  CHECK(Applied(&cluster, 1) == 1);
  view.mutable_jobs(0)->set_has_hold(false);
  cluster.server(1).UpdateView(view, 101);
  const absl::Status moved = cluster.Copy(Task::MOVE_PARTITIONS, 5, 0, {0}, 1);
  CHECK(moved.code() == absl::StatusCode::kFailedPrecondition);
  CHECK(moved.message().find("held.rounds_applied: 0") != absl::string_view::npos);
  // It is served again.
  CHECK(cluster.Open(1, 1, 0, 0).outcome == RequestOutcome::kOk);
  CHECK(cluster.Copy(Task::ADD_BACKUP, 5, 0, {0}, 1).code() == absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace shoal
