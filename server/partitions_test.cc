// Partitions that come to a server and leave it.
#include <catch2/catch.hpp>

#include "server/test_cluster.h"

namespace shoal {
namespace {

// Records [begin, end) of split 0 add 1 to 40 keys each batch.
TestBatch Batch(uint64_t begin, uint64_t end) {
  TestBatch batch;
  batch.begin = begin;
  batch.end = end;
  for (uint64_t key = 0; key < 40; ++key) batch.rows[key] = {-1, -static_cast<float>(end)};
  return batch;
}

// The next map: every partition belongs to `owner`.
void GiveAllTo(TestCluster* cluster, uint32_t owner) {
  cluster->view().set_map_version(cluster->view().map_version() + 1);
  for (int p = 0; p < cluster->view().owner_size(); ++p) cluster->view().set_owner(p, owner);
}

std::map<uint32_t, PushOutcome> Answers(const PushReply& reply) {
  std::map<uint32_t, PushOutcome> out;
  for (const PartitionAnswer& answer : reply.exceptions) out[answer.partition] = answer.outcome;
  return out;
}

TEST_CASE("Restore: a lost partition comes back as of the checkpoint, the others answer DUPLICATE", "[server][unit]") {
  const std::string dir = FreshDirectory("restore");
  TestCluster cluster(TestCluster::DefaultConfig(), 2);
  cluster.Open(1, 7, 0, 0), cluster.Open(1, 7, 0, 1);
  const auto push = [&](uint64_t begin, uint64_t end) {
    TestBatch batch = Batch(begin, end);
    batch.lease = 7;
    return batch;
  };
  cluster.Push(push(0, 10));
  const absl::StatusOr<std::string> saved = cluster.Save(dir, "a");
  REQUIRE(saved.ok());
  cluster.Push(push(10, 20));
  const std::vector<uint32_t> lost = cluster.PartitionsOf(1);
  GiveAllTo(&cluster, 0);
  // Until the task has filled them, lanes are sent back.
  cluster.Publish();
  CHECK(cluster.Open(1, 7, 0).outcome == RequestOutcome::kStaleMap);
  PushReply reply = cluster.PushTo(0, push(10, 20));
  for (uint32_t p : lost) CHECK(Answers(reply)[p] == PushOutcome::kStaleMap);
  CHECK(reply.exceptions.size() == 8);
  REQUIRE(cluster.Restore(0, lost, *saved).ok());
  CHECK(cluster.Open(1, 8, 0).watermarks == std::vector<uint64_t>{10, 20});
  const std::vector<PartitionDone> report = cluster.server(0).ReportDone(1).value();
  for (const PartitionDone& done : report) {
    const bool fell_back = std::find(lost.begin(), lost.end(), done.partition()) != lost.end();
    REQUIRE(done.open_size() == 1);
    CHECK(done.open(0).split() == 0);
    CHECK(done.open(0).watermark() == (fell_back ? 10 : 20));
    CHECK(done.open(0).lease() == 8);
  }
  TestBatch again = push(10, 20);
  again.lease = 8;
  reply = cluster.PushTo(0, again);
  CHECK(reply.exceptions.size() == 4);
  for (uint32_t p : lost) CHECK(Answers(reply).count(p) == 0);
  for (uint64_t key = 0; key < 40; ++key) CHECK(cluster.Read(key) == std::vector<float>{2, 30});
  // A repeat of the task leaves what is served alone.
  REQUIRE(cluster.Restore(0, lost, *saved).ok());
  CHECK(cluster.Read(3) == std::vector<float>{2, 30});
  CHECK(cluster.server(0).Report(1).partitions_size() == 8);
  // The server that lost them answers nothing more for them.
  CHECK(cluster.server(1).ReportDone(1)->empty());
}

TEST_CASE("Restore: without a checkpoint a partition begins anew; a server without the job makes it",
          "[server][unit]") {
  TestCluster cluster(TestCluster::DefaultConfig(), 2);
  cluster.Push(Batch(0, 10));
  cluster.server(0).DropJob(1);
  GiveAllTo(&cluster, 0);
  cluster.Publish();
  cluster.Open(1, 1, 0);
  CHECK(cluster.last().code() == absl::StatusCode::kUnavailable);
  const std::vector<uint32_t> some = {0, 3};
  REQUIRE(cluster.Restore(0, some).ok());
  REQUIRE(cluster.server(0).ReportDone(1)->size() == 2);
  CHECK(cluster.server(0).ReportDone(1)->at(1).partition() == 3);
  CHECK(cluster.server(0).ReportDone(1)->at(1).open_size() == 0);
  // The others are not here yet.
  CHECK(cluster.Open(1, 1, 0).outcome == RequestOutcome::kStaleMap);
  REQUIRE(cluster.Restore(0, cluster.PartitionsOf(0)).ok());
  cluster.Push(Batch(0, 10));
  CHECK(cluster.Read(5) == std::vector<float>{1, 10});
  const absl::Status foreign = cluster.Restore(1, some);
  CHECK(foreign.code() == absl::StatusCode::kFailedPrecondition);
}

TEST_CASE("Map: one that does not fit is reported and the older one stays", "[server][unit]") {
  TestCluster cluster(TestCluster::DefaultConfig(), 2);
  const JobView good = cluster.view();
  cluster.view().set_map_version(2);
  cluster.view().set_owner(3, 9);
  cluster.Publish();
  CHECK(cluster.server(0).Report(1).warning() ==
        "map version 2 is not usable, version 1 stays: view.owner[3]: 9, must be below 2");
  cluster.view() = good;
  CHECK(cluster.Open(1, 1, 0).outcome == RequestOutcome::kOk);
  cluster.view().set_map_version(3);
  cluster.Publish();
  CHECK(cluster.server(0).Report(1).warning() == "");
}

TEST_CASE("Incarnation: what an earlier one held is given up", "[server][unit]") {
  TestCluster cluster(TestCluster::DefaultConfig(), 1);
  cluster.Push(Batch(0, 10));
  cluster.view().mutable_servers(0)->set_process(555);
  cluster.view().set_map_version(2);
  cluster.Publish();
  CHECK(cluster.server(0).ReportDone(1)->empty());
  REQUIRE(cluster.server(0).PrepareJob(TestCluster::DefaultConfig(), cluster.view(), 555, "").ok());
  CHECK(cluster.server(0).ReportDone(1)->size() == 8);
  CHECK(cluster.Read(5) == std::vector<float>{0, 0});
}

TEST_CASE("Eviction between pull and push: the gradient finds its own key or is counted, never a neighbour",
          "[server][unit]") {
  const bool admission = GENERATE(false, true);
  JobConfig config = TestCluster::DefaultConfig();
  config.mutable_job()->set_partitions(1);
  config.mutable_job()->mutable_ttl()->set_examples(10);
  if (admission) config.mutable_job()->mutable_admission()->set_min_count(2);
  TestCluster cluster(config, 1);
  const auto push = [&](uint64_t begin, uint64_t end, uint64_t first, uint64_t last, float gradient) {
    TestBatch batch;
    batch.begin = begin, batch.end = end;
    for (uint64_t key = first; key < last; ++key) batch.rows[key] = {gradient, gradient}, batch.occurrences[key] = 2;
    return batch;
  };
  cluster.PushTo(0, push(0, 5, 1, 9, -1));
  CHECK(cluster.Read(1) == std::vector<float>{1, 1});  // the lane has these weights
  // Time passes: the rows expire, and others take their cells.
  for (uint64_t at = 5; at < 45; at += 5) cluster.PushTo(0, push(at, at + 5, 100 + 10 * at, 108 + 10 * at, -3));
  REQUIRE(cluster.server(0).Report(1).expired() >= 8);
  TestBatch late = push(45, 46, 1, 9, -7);
  if (admission) late.occurrences.clear();
  cluster.PushTo(0, late);
  for (uint64_t key = 1; key < 9; ++key) {
    CHECK(cluster.Read(key) == (admission ? std::vector<float>{0, 0} : std::vector<float>{7, 7}));
  }
  CHECK(cluster.server(0).Report(1).not_admitted() == (admission ? 8 : 0));
  for (uint64_t key = 500; key < 508; ++key) CHECK(cluster.Read(key) == std::vector<float>{3, 3});
}

}  // namespace
}  // namespace shoal
