// Partitions that move between servers, and backups.
#include <catch2/catch.hpp>

#include "server/test_cluster.h"

namespace shoal {
namespace {

constexpr uint64_t kKeys = 60;
const std::vector<uint32_t> kMoved = {0, 2, 4};  // of server 0

TestBatch Batch(uint64_t number, uint64_t lease = 1) {
  TestBatch batch;
  batch.begin = 10 * number;
  batch.end = 10 * number + 10;
  batch.lease = lease;
  for (uint64_t key = 0; key < kKeys; ++key) batch.rows[key] = {-1, -static_cast<float>(number + 1)};
  batch.dense = -1;
  return batch;
}

// Every row holds the batches 0 .. batches - 1, once each.
void CheckCounts(TestCluster* cluster, uint64_t batches) {
  const float sum = static_cast<float>(batches * (batches + 1) / 2);
  for (uint64_t key = 0; key < kKeys; ++key) {
    INFO("key " << key);
    REQUIRE(cluster->Read(key) == std::vector<float>{static_cast<float>(batches), sum});
  }
}

PushOutcome AnswerOf(const PushReply& reply, uint32_t partition) {
  for (const PartitionAnswer& answer : reply.exceptions) {
    if (answer.partition == partition) return answer.outcome;
  }
  return PushOutcome::kAccepted;
}

TEST_CASE("Move: copied while served, frozen until the map comes, then the target goes on from the same watermark",
          "[server][unit]") {
  TestCluster cluster(TestCluster::DefaultConfig(), 2);
  cluster.Open(1, 5, 0, 0), cluster.Open(1, 5, 0, 1);
  cluster.Push(Batch(0, 5));
  cluster.Publish(0, {9});
  REQUIRE(cluster.Copy(Task::MOVE_PARTITIONS, 9, 0, kMoved, 1).ok());
  // Nobody serves them now.
  const PushReply frozen = cluster.PushTo(0, Batch(1, 5));
  for (uint32_t p : kMoved) CHECK(AnswerOf(frozen, p) == PushOutcome::kStaleMap);
  CHECK(AnswerOf(frozen, 6) == PushOutcome::kAccepted);
  CHECK(cluster.Open(1, 5, 0, 0).outcome == RequestOutcome::kStaleMap);
  CHECK(cluster.server(0).ReportDone(1)->size() == 4);
  CHECK(cluster.server(1).ReportDone(1)->size() == 4);
  cluster.Give(kMoved, 1);
  cluster.Publish();
  CHECK(cluster.server(0).ReportDone(1)->size() == 1);
  CHECK(cluster.server(1).ReportDone(1)->size() == 7);
  // The lease went along, too.
  CHECK(cluster.Open(2, 4, 0, 1).outcome == RequestOutcome::kFenced);
  CHECK(cluster.Open(1, 5, 0, 1).watermarks == std::vector<uint64_t>{10});
  cluster.Push(Batch(1, 5));
  cluster.Push(Batch(1, 5));
  cluster.Push(Batch(2, 5));
  CheckCounts(&cluster, 3);
}

TEST_CASE("Move: a server without the job gets it together with its first partition", "[server][unit]") {
  TestCluster cluster(TestCluster::DefaultConfig(), 2);
  cluster.Push(Batch(0));
  cluster.server(1).DropJob(1);
  std::vector<uint32_t> theirs = cluster.PartitionsOf(1);
  cluster.Give(theirs, 0);
  cluster.Publish();
  REQUIRE(cluster.Restore(0, theirs).ok());
  cluster.Publish(0, {3});
  REQUIRE(cluster.Copy(Task::MOVE_PARTITIONS, 3, 0, kMoved, 1).ok());
  cluster.Give(kMoved, 1);
  cluster.Publish();
  CHECK(cluster.server(1).ReportDone(1)->size() == 3);
  cluster.Push(Batch(0));
  cluster.Push(Batch(1));
  CheckCounts(&cluster, 2);
}

TEST_CASE("Move: when it is given up the source serves again, and the copy is never served", "[server][unit]") {
  TestCluster cluster(TestCluster::DefaultConfig(), 3);
  cluster.Push(Batch(0));
  const std::vector<uint32_t> moved = {0, 3};
  cluster.Publish(0, {9});
  REQUIRE(cluster.Copy(Task::MOVE_PARTITIONS, 9, 0, moved, 1).ok());
  cluster.Publish();
  cluster.Push(Batch(1));
  CheckCounts(&cluster, 2);
  // A second attempt copies anew.
  cluster.Publish(0, {10});
  REQUIRE(cluster.Copy(Task::MOVE_PARTITIONS, 10, 0, moved, 1).ok());
  cluster.Give(moved, 1);
  cluster.Publish();
  cluster.Push(Batch(2));
  CheckCounts(&cluster, 3);
  // Nor is one that a map gives to a third server.
  cluster.Publish(1, {11});
  REQUIRE(cluster.Copy(Task::MOVE_PARTITIONS, 11, 1, moved, 0).ok());
  cluster.Give(moved, 2);
  cluster.Publish();
  REQUIRE(cluster.Restore(2, moved).ok());
  cluster.Give(moved, 0);
  cluster.Publish();
  CHECK(cluster.Open(1, 1, 0, 0).outcome == RequestOutcome::kStaleMap);
}

TEST_CASE("Move: the death of either side at each message", "[server][unit]") {
  // How many messages a whole move takes.
  uint64_t all = 0;
  {
    TestCluster cluster(TestCluster::DefaultConfig(), 2);
    cluster.Push(Batch(0));
    cluster.Publish(0, {9});
    REQUIRE(cluster.Copy(Task::MOVE_PARTITIONS, 9, 0, kMoved, 1).ok());
    all = cluster.network().messages();
  }
  REQUIRE(all == 2 * kMoved.size());
  const uint64_t at = GENERATE(range(0, 6));
  const bool source_dies = GENERATE(false, true);
  const bool reply_lost = GENERATE(false, true);
  TestCluster cluster(TestCluster::DefaultConfig(), 2);
  cluster.Push(Batch(0));
  cluster.Publish(0, {9});
  cluster.network().fate = [&](const ReplicaRequest&) {
    if (cluster.network().messages() <= at) return ReplicaFate::kDeliver;
    return reply_lost && cluster.network().messages() == at + 1 ? ReplicaFate::kLoseReply : ReplicaFate::kLoseRequest;
  };
  INFO("message " << at << (source_dies ? ", source" : ", target"));
  CHECK(cluster.Copy(Task::MOVE_PARTITIONS, 9, 0, kMoved, 1).code() == absl::StatusCode::kUnavailable);
  cluster.network().fate = nullptr;
  if (source_dies) {
    // Its partitions come back, empty, at the server that was to get some: no half a copy is served. A whole one may
    // be.
    const std::vector<uint32_t> lost = cluster.PartitionsOf(0);
    cluster.Kill(0);
    cluster.Give(lost, 1);
    cluster.Publish();
    REQUIRE(cluster.Restore(1, lost).ok());
    for (uint64_t batch : {0, 1}) cluster.PushTo(1, Batch(batch));
  } else {
    cluster.Kill(1);
    const PushReply reply = cluster.PushTo(0, Batch(1));
    CHECK(reply.exceptions.empty());
    const std::vector<uint32_t> lost = cluster.PartitionsOf(1);
    cluster.Give(lost, 0);
    cluster.Publish();
    REQUIRE(cluster.Restore(0, lost).ok());
    for (uint64_t batch : {0, 1}) cluster.PushTo(0, Batch(batch));
  }
  CheckCounts(&cluster, 2);
}

TEST_CASE("Move: what is not this job, run, target or map is refused by name", "[server][unit]") {
  TestCluster cluster(TestCluster::DefaultConfig(), 2);
  ReplicaRequest good;
  good.set_job(1);
  good.set_run(1);
  good.set_map_version(1);
  good.set_source(100);
  good.set_target(101);
  ReplicaPiece* piece = good.add_pieces();
  piece->set_link(1);
  piece->set_full(true);
  piece->set_version(1);
  piece->set_total_bytes(4);
  piece->set_bytes("junk");
  CHECK(cluster.server(1).Replicate(good).status().code() == absl::StatusCode::kUnavailable);  // no view yet
  cluster.Publish();
  const auto refused = [&](const char* what, absl::StatusCode code, auto change) {
    ReplicaRequest request = good;
    change(&request);
    const absl::StatusOr<ReplicaReply> reply = cluster.server(1).Replicate(request);
    INFO(what << ": " << reply.status().ToString());
    if (!reply.ok()) {
      CHECK(reply.status().code() == code);
      CHECK(reply.status().message().find(what) != absl::string_view::npos);
      return;
    }
    REQUIRE(reply->refused_size() == 1);
    INFO(reply->refused(0).message());
    CHECK(reply->refused(0).code() == static_cast<int>(code));
    CHECK(reply->refused(0).message().find(what) != std::string::npos);
  };
  using Code = absl::StatusCode;
  refused("job 7", Code::kUnavailable, [](ReplicaRequest* r) { r->set_job(7); });
  refused("run: 2", Code::kUnavailable, [](ReplicaRequest* r) { r->set_run(2); });
  refused("run: 0", Code::kFailedPrecondition, [](ReplicaRequest* r) { r->set_run(0); });
  refused("target: process 5", Code::kFailedPrecondition, [](ReplicaRequest* r) { r->set_target(5); });
  refused("map_version: 0", Code::kUnavailable, [](ReplicaRequest* r) { r->set_map_version(0); });
  refused("partition: 8", Code::kInvalidArgument, [](ReplicaRequest* r) { r->mutable_pieces(0)->set_partition(8); });
  refused("offset: 2", Code::kFailedPrecondition, [](ReplicaRequest* r) { r->mutable_pieces(0)->set_offset(2); });
  refused("bytes: 4 at 0", Code::kInvalidArgument, [](ReplicaRequest* r) { r->mutable_pieces(0)->set_total_bytes(3); });
  refused("image", Code::kFailedPrecondition, [](ReplicaRequest*) {});
  refused("no copy", Code::kFailedPrecondition, [](ReplicaRequest* r) { r->mutable_pieces(0)->set_full(false); });
  CHECK(cluster.server(1).ReportDone(1)->size() == 4);
}

// Server 1 backs up what server 0 owns.
struct Replicated {
  explicit Replicated(JobConfig config = TestCluster::DefaultConfig()) : cluster(std::move(config), 2) {
    cluster.Give(cluster.PartitionsOf(1), 0);
    all = cluster.PartitionsOf(0);
    cluster.Publish();
    REQUIRE(cluster.Restore(0, all).ok());
    cluster.PushTo(0, Batch(0));
    cluster.Back(all, 1);
    cluster.Publish(0, {7});
    REQUIRE(cluster.Copy(Task::ADD_BACKUP, 7, 0, all, 1).ok());
    cluster.Publish();
  }
  void Promote() {
    cluster.Kill(0);
    cluster.Back(all, -1);
    cluster.Give(all, 1);
    cluster.server(1).UpdateView(cluster.view());
  }
  TestCluster cluster;
  std::vector<uint32_t> all;
};

TEST_CASE("Backup: a push is acknowledged when the backup has it, and a promotion loses none", "[server][unit]") {
  Replicated replicated;
  TestCluster& cluster = replicated.cluster;
  for (uint64_t batch = 1; batch < 4; ++batch) {
    cluster.PushTo(0, Batch(batch));
    REQUIRE(cluster.outstanding() == 0);
    REQUIRE(cluster.last().ok());
  }
  replicated.Promote();
  CHECK(cluster.Open(1, 1, 0, 1).watermarks == std::vector<uint64_t>{40});
  CheckCounts(&cluster, 4);
  for (uint64_t batch : {3, 4}) cluster.PushTo(1, Batch(batch));
  CheckCounts(&cluster, 5);
}

TEST_CASE("Backup: while it is out of reach pushes wait, also repeated ones, until it answers or a map takes it away",
          "[server][unit]") {
  Replicated replicated;
  TestCluster& cluster = replicated.cluster;
  const bool reply_lost = GENERATE(false, true);
  cluster.network().fate = [&](const ReplicaRequest&) {
    return reply_lost ? ReplicaFate::kLoseReply : ReplicaFate::kLoseRequest;
  };
  cluster.PushTo(0, Batch(1));
  CHECK(cluster.outstanding() == 1);
  // The primary has applied it: the repeat finds a duplicate, which is no acknowledgement either.
  const PushReply repeat = cluster.PushTo(0, Batch(1));
  CHECK(AnswerOf(repeat, 0) == PushOutcome::kDuplicate);
  CHECK(cluster.outstanding() == 2);
  cluster.clock().Advance(absl::Seconds(3));
  cluster.server(0).Tick();
  CHECK(cluster.outstanding() == 0);
  CHECK(cluster.last().code() == absl::StatusCode::kUnavailable);
  SECTION("it answers again") {
    cluster.PushTo(0, Batch(1));
    CHECK(cluster.outstanding() == 1);
    cluster.network().fate = nullptr;
    cluster.clock().Advance(absl::Seconds(1));
    cluster.server(0).Tick();
    CHECK(cluster.outstanding() == 0);
    CHECK(cluster.last().ok());
    replicated.Promote();
    CheckCounts(&cluster, 2);
  }
  SECTION("a map takes it away") {
    cluster.PushTo(0, Batch(1));
    CHECK(cluster.outstanding() == 1);
    cluster.Back(replicated.all, -1);
    cluster.Publish();
    CHECK(cluster.outstanding() == 0);
    CHECK(cluster.last().ok());
    cluster.PushTo(0, Batch(2));
    CHECK(cluster.outstanding() == 0);
    CheckCounts(&cluster, 3);
    // What had been the backup has nothing to serve.
    cluster.Give(replicated.all, 1);
    cluster.Publish();
    CHECK(cluster.Open(1, 1, 0, 1).outcome == RequestOutcome::kStaleMap);
  }
}

TEST_CASE("Backup: asked for again it stays in step, and a move to it needs no copy", "[server][unit]") {
  Replicated replicated;
  TestCluster& cluster = replicated.cluster;
  cluster.PushTo(0, Batch(1));
  const uint64_t messages = cluster.network().messages();
  cluster.Publish(0, {8});
  REQUIRE(cluster.Copy(Task::ADD_BACKUP, 8, 0, replicated.all, 1).ok());
  cluster.Publish(0, {9});
  REQUIRE(cluster.Copy(Task::MOVE_PARTITIONS, 9, 0, replicated.all, 1).ok());
  CHECK(cluster.network().messages() == messages);
  CHECK(cluster.PushTo(0, Batch(2)).exceptions.size() == 8);
  cluster.Back(replicated.all, -1);
  cluster.Give(replicated.all, 1);
  cluster.Publish();
  cluster.PushTo(1, Batch(2));
  CheckCounts(&cluster, 3);
}

TEST_CASE("Backup: an old primary is refused after the promotion and acknowledges nothing", "[server][unit]") {
  Replicated replicated;
  TestCluster& cluster = replicated.cluster;
  const JobView old = cluster.view();
  cluster.Back(replicated.all, -1);
  cluster.Give(replicated.all, 1);
  cluster.server(1).UpdateView(cluster.view());
  const JobView now = cluster.view();
  cluster.view() = old;
  cluster.PushTo(0, Batch(1));
  CHECK(cluster.outstanding() == 1);
  cluster.clock().Advance(absl::Seconds(3));
  cluster.server(0).Tick();
  CHECK(cluster.outstanding() == 0);
  CHECK(cluster.last().code() == absl::StatusCode::kUnavailable);
  cluster.view() = now;
  cluster.PushTo(1, Batch(1));
  CHECK(cluster.last().ok());
  CheckCounts(&cluster, 2);
  cluster.server(0).UpdateView(cluster.view());
  CHECK(cluster.server(0).ReportDone(1)->empty());
}

TEST_CASE("Backup: one that does not answer is reported until it does", "[server][unit]") {
  Replicated replicated;
  TestCluster& cluster = replicated.cluster;
  const auto silent = [&] { return cluster.server(0).UnreachableServers(); };
  CHECK(silent().empty());
  cluster.network().fate = [](const ReplicaRequest&) { return ReplicaFate::kLoseRequest; };
  cluster.PushTo(0, Batch(1));
  CHECK(silent().empty());  // it may be a moment only
  cluster.clock().Advance(absl::Seconds(3));
  cluster.server(0).Tick();
  REQUIRE(silent().size() == 1);
  CHECK(silent()[0].server() == cluster.view().servers(1).process());
  CHECK(silent()[0].seconds() == 3);
  CHECK(silent()[0].error() == "request lost");
  CHECK(cluster.server(1).UnreachableServers().empty());
  cluster.network().fate = nullptr;
  cluster.clock().Advance(absl::Seconds(1));
  cluster.server(0).Tick();
  CHECK(silent().empty());
}

}  // namespace
}  // namespace shoal
