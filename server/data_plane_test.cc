#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <thread>

#include "server/test_cluster.h"

namespace shoal {
namespace {

TestBatch Batch(uint64_t begin, uint64_t end, std::map<uint64_t, std::vector<float>> rows = {}) {
  TestBatch batch;
  batch.begin = begin;
  batch.end = end;
  batch.rows = std::move(rows);
  return batch;
}

// The answer that all partitions of server 0 give; a mixture is reported as a failure of the test.
PushOutcome Uniform(const PushReply& reply, size_t partitions) {
  if (reply.exceptions.empty()) return PushOutcome::kAccepted;
  REQUIRE(reply.exceptions.size() == partitions);
  for (const PartitionAnswer& answer : reply.exceptions) REQUIRE(answer.outcome == reply.exceptions[0].outcome);
  return reply.exceptions[0].outcome;
}

// A gated pull without keys; `answered` receives its outcome.
struct GatedPull {
  PullRequest request;
  PullReply reply;
  std::vector<absl::Status> answers;
  void Send(TestCluster& cluster, uint64_t lane, uint64_t batch, uint64_t finished) {
    request.header = cluster.Header(lane);
    request.batch = batch;
    request.finished = finished;
    request.dense = false;
    Send(cluster);
  }
  void Send(TestCluster& cluster) {
    cluster.server(0).Pull(&request, absl::Seconds(10), &reply, [this](absl::Status s) { answers.push_back(s); });
  }
};

TEST_CASE("Push: the table of answers, row by row", "[server][unit]") {
  TestCluster cluster(TestCluster::DefaultConfig(), 1);
  REQUIRE(cluster.prepared().ok());
  CHECK(cluster.Open(1, 5, 0).watermarks == std::vector<uint64_t>{0});
  TestBatch batch = Batch(0, 10, {{42, {-1, -2}}});
  batch.lease = 5;
  CHECK(Uniform(cluster.PushTo(0, batch), 8) == PushOutcome::kAccepted);
  CHECK(Uniform(cluster.PushTo(0, batch), 8) == PushOutcome::kDuplicate);
  CHECK(cluster.Read(42) == std::vector<float>{1, 2});
  batch.begin = 5, batch.end = 15;
  PushReply reply = cluster.PushTo(0, batch);
  CHECK(Uniform(reply, 8) == PushOutcome::kMisaligned);
  CHECK(reply.exceptions[0].watermark == 10);
  batch.begin = 12;
  CHECK(Uniform(cluster.PushTo(0, batch), 8) == PushOutcome::kOutOfOrder);
  batch.begin = 10, batch.lease = 4;
  CHECK(Uniform(cluster.PushTo(0, batch), 8) == PushOutcome::kFenced);
  CHECK(cluster.Read(42) == std::vector<float>{1, 2});
  batch.lease = 5, batch.end_of_split = true;
  CHECK(Uniform(cluster.PushTo(0, batch), 8) == PushOutcome::kAccepted);
  CHECK(cluster.Read(42) == std::vector<float>{2, 4});
  CHECK(Uniform(cluster.PushTo(0, batch), 8) == PushOutcome::kDuplicate);
  CHECK(cluster.Open(1, 6, 0).watermarks == std::vector<uint64_t>{kSplitDone});
  CHECK(cluster.server(0).ReportDone(1)->at(0).prefix() == 1);
  CHECK(cluster.server(0).ReportDone(1)->at(0).examples() == 15);
}

TEST_CASE("Push: a late end of a split closes it although its records are duplicates", "[server][unit]") {
  TestCluster cluster(TestCluster::DefaultConfig(), 1);
  cluster.PushTo(0, Batch(0, 10));
  TestBatch last = Batch(4, 10);
  last.end_of_split = true;
  CHECK(Uniform(cluster.PushTo(0, last), 8) == PushOutcome::kDuplicate);
  CHECK(cluster.Open(1, 2, 0).watermarks == std::vector<uint64_t>{kSplitDone});
  TestBatch empty = Batch(0, 0);
  empty.split = 3;
  empty.end_of_split = true;
  CHECK(Uniform(cluster.PushTo(0, empty), 8) == PushOutcome::kAccepted);
  CHECK(cluster.server(0).ReportDone(1)->at(0).extra(0) == 3);
}

TEST_CASE("Fencing: older run, removed lane, older lease, stale map", "[server][unit]") {
  TestCluster cluster(TestCluster::DefaultConfig(), 2, "", 3);
  cluster.Open(1, 9, 0);
  CHECK(cluster.Open(1, 8, 0).outcome == RequestOutcome::kFenced);
  CHECK(cluster.Open(1, 9, 0).outcome == RequestOutcome::kOk);
  cluster.view().set_run(2);
  CHECK(cluster.PushTo(0, Batch(0, 1)).outcome == RequestOutcome::kFenced);
  cluster.view().set_run(3);
  cluster.view().set_map_version(2);
  CHECK(cluster.Open(1, 9, 0).outcome == RequestOutcome::kStaleMap);
  cluster.view().set_map_version(1);
  cluster.view().set_live_version(2);
  cluster.view().set_next_lane(2);
  cluster.server(0).UpdateView(cluster.view());
  CHECK(cluster.PushTo(0, Batch(0, 1)).outcome == RequestOutcome::kFenced);
  TestBatch other = Batch(0, 1);
  other.lane = 2;
  other.lease = 10;
  const std::vector<uint32_t> partitions = {0, 1};
  PushRequest request;
  request.header = cluster.Header(2);
  request.lease = 10;
  request.end = 1;
  request.partitions = partitions;
  PushReply reply;
  cluster.server(0).Push(&request, &reply, [](absl::Status s) { CHECK(s.ok()); });
  REQUIRE(reply.exceptions.size() == 1);
  CHECK(reply.exceptions[0].partition == 1);
  CHECK(reply.exceptions[0].outcome == PushOutcome::kStaleMap);
}

TEST_CASE("Requests: what does not fit is refused by name, nothing is applied", "[server][unit]") {
  TestCluster cluster(TestCluster::DefaultConfig(), 1);
  const std::vector<uint32_t> partitions = {PartitionOfKey(5, 8)};
  const std::vector<uint64_t> keys = {5}, misplaced = {PartitionOfKey(6, 8) == partitions[0] ? uint64_t{7} : 6};
  const std::vector<uint32_t> one = {1}, two = {2}, table = {0}, no_table = {9};
  const std::vector<float> gradient = {1, 1};
  PushRequest good;
  good.header = cluster.Header(1);
  good.end = 1;
  good.examples = 1;
  good.partitions = partitions;
  good.groups.push_back({keys, one, table, {gradient.data()}, {}});
  const auto refused = [&](const char* field, auto change) {
    PushRequest request = good;
    change(&request);
    PushReply reply;
    absl::Status status;
    cluster.server(0).Push(&request, &reply, [&](absl::Status s) { status = s; });
    INFO(status.ToString());
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    CHECK(status.message().find(field) != absl::string_view::npos);
  };
  const std::vector<uint32_t> beyond = {8}, twice = {3, 3};
  const std::vector<uint16_t> two_slots = {0, 0}, far_slot = {9};
  refused("partitions[0]: 8", [&](PushRequest* r) { r->partitions = beyond; });
  refused("partitions[1]: 3", [&](PushRequest* r) { r->partitions = twice; });
  refused("groups[0].counts: sum 2", [&](PushRequest* r) { r->groups[0].counts = two; });
  refused("groups[0].tables: 9", [&](PushRequest* r) { r->groups[0].tables = no_table; });
  refused("groups[0].keys[0]", [&](PushRequest* r) { r->groups[0].keys = misplaced; });
  refused("groups[0].dims[0]: 1, table t has 2", [&](PushRequest* r) { r->groups[0].dims = one; });
  refused("dense: 1 floats", [&](PushRequest* r) { r->dense = absl::MakeConstSpan(gradient).subspan(0, 1); });
  refused("split: 4", [&](PushRequest* r) { r->split = 4; });
  refused("pass: 2", [&](PushRequest* r) { r->pass = 2; });
  refused("end: 0", [&](PushRequest* r) { r->begin = 1, r->end = 0; });
  refused("examples: 2", [&](PushRequest* r) { r->examples = 2; });
  refused("header.lane: 0", [&](PushRequest* r) { r->header.lane = 0; });
  refused("groups[0].slots: 1, must be below 1", [&](PushRequest* r) { r->groups[0].slot = 1; });
  refused("groups[0].slots: 2 entries", [&](PushRequest* r) { r->groups[0].slots = two_slots; });
  refused("groups[0].slots: 9, must be below 1", [&](PushRequest* r) { r->groups[0].slots = far_slot; });
  refused("groups[0].occurrences: 2", [&](PushRequest* r) { r->groups[0].occurrences = twice; });
  CHECK(cluster.server(0).Report(1).rows() == 0);
  PushReply reply;
  good.header.job = 77;
  cluster.server(0).Push(&good, &reply, [](absl::Status s) { CHECK(s.code() == absl::StatusCode::kNotFound); });
}

TEST_CASE("ssp: a pull waits for the slowest lane, and its removal or death opens the gate", "[server][unit]") {
  JobConfig config = TestCluster::DefaultConfig();
  config.mutable_job()->mutable_sync()->mutable_ssp()->set_staleness(1);
  TestCluster cluster(config, 1);
  cluster.Open(1, 1, 0);
  cluster.Open(2, 2, 1);
  GatedPull first, second, third, slow;
  first.Send(cluster, 1, 1, 1);
  CHECK(first.answers.size() == 1);
  CHECK(first.reply.slowest_clock == 0);
  second.Send(cluster, 1, 2, 2);
  CHECK(second.answers.empty());
  slow.Send(cluster, 2, 1, 1);  // lane 2 has finished one: the slowest is 1
  CHECK(second.answers.size() == 1);
  CHECK(second.reply.slowest_clock == 1);
  third.Send(cluster, 1, 3, 3);
  CHECK(third.answers.empty());
  CHECK(cluster.Open(3, 3, 2).slowest_clock == 1);  // a joiner starts at the slowest clock
  cluster.view().set_live_version(2);
  cluster.view().set_next_lane(4);
  cluster.view().add_lanes()->set_lane(1);
  cluster.server(0).UpdateView(cluster.view());  // lanes 2 and 3 are gone
  REQUIRE(third.answers.size() == 1);
  CHECK(third.reply.outcome == RequestOutcome::kOk);
  CHECK(third.reply.slowest_clock == 3);  // the view's clock of lane 1, 0, does not set it back
}

TEST_CASE("Parked pulls: time out by Tick, are cancelled by DropJob, fenced with their lane", "[server][unit]") {
  JobConfig config = TestCluster::DefaultConfig();
  config.mutable_job()->mutable_sync()->mutable_ssp()->set_staleness(0);
  TestCluster cluster(config, 1);
  cluster.Open(1, 1, 0);
  cluster.Open(2, 2, 1);
  GatedPull late, dropped, fenced;
  late.Send(cluster, 1, 5, 1);
  cluster.clock().Advance(absl::Seconds(9));
  cluster.server(0).Tick();
  CHECK(late.answers.empty());
  dropped.Send(cluster, 1, 5, 1);
  fenced.Send(cluster, 2, 7, 0);
  cluster.clock().Advance(absl::Seconds(1));
  cluster.server(0).Tick();
  REQUIRE(late.answers.size() == 1);
  CHECK(late.answers[0].code() == absl::StatusCode::kAborted);
  cluster.view().set_live_version(2);
  cluster.view().set_next_lane(3);
  cluster.view().add_lanes()->set_lane(1);
  cluster.server(0).UpdateView(cluster.view());
  REQUIRE(fenced.answers.size() == 1);
  CHECK(fenced.reply.outcome == RequestOutcome::kFenced);
  CHECK(dropped.answers.empty());
  cluster.server(0).DropJob(1);
  REQUIRE(dropped.answers.size() == 1);
  CHECK(dropped.answers[0].code() == absl::StatusCode::kCancelled);
}

TEST_CASE("Guard, admission, soft and hard memory limits", "[server][unit]") {
  JobConfig config = TestCluster::DefaultConfig();
  config.mutable_job()->set_partitions(1);
  SECTION("a row with NaN, Inf or a huge value is refused after division, the watermark moves on") {
    config.mutable_job()->mutable_guard()->set_max_abs(10);
    config.mutable_job()->mutable_batch()->set_reduce(BatchConfig::MEAN);
    TestCluster cluster(config, 1);
    const float inf = std::numeric_limits<float>::infinity();
    TestBatch batch = Batch(0, 2, {{1, {1, std::nanf("")}}, {2, {inf, 0}}, {3, {22, 0}}, {4, {20, -20}}});
    batch.dense = 100;  // the block's mean gradient is 50
    const PushReply reply = cluster.PushTo(0, batch);
    CHECK(reply.guard_refused == 4);
    CHECK((reply.not_admitted == 0 && reply.memory_refused == 0));
    const ServerJobReport report = cluster.server(0).Report(1);
    CHECK(report.refused_batches() == 1);
    REQUIRE(report.refused_size() == 1);
    const RefusedBatch& refused = report.refused(0);
    CHECK((refused.number() == 1 && refused.lane() == 1 && refused.begin() == 0 && refused.end() == 2));
    REQUIRE(refused.rows_size() == 2);
    CHECK((!refused.rows(0).dense() && refused.rows(0).slot_index() == 0 && refused.rows(0).rows() == 3));
    CHECK((refused.rows(1).dense() && refused.rows(1).table_index() == 0 && refused.rows(1).rows() == 1));
    // A repeat is a duplicate and refuses nothing; of many refused batches the newest are kept.
    cluster.PushTo(0, batch);
    CHECK(cluster.server(0).Report(1).refused_batches() == 1);
    for (uint64_t b = 1; b <= 40; ++b) cluster.PushTo(0, Batch(2 * b, 2 * b + 2, {{1, {1, std::nanf("")}}}));
    const ServerJobReport many = cluster.server(0).Report(1);
    CHECK(many.refused_batches() == 41);
    REQUIRE(many.refused_size() == 32);
    CHECK((many.refused(0).number() == 10 && many.refused(31).number() == 41 && many.refused(31).begin() == 80));
    CHECK(cluster.Read(1) == std::vector<float>{0, 0});
    CHECK(cluster.Read(4) == std::vector<float>{-10, 10});
    CHECK(report.guard_refused() == 4);
    CHECK(report.rows() == 1);
    CHECK(Uniform(cluster.PushTo(0, batch), 1) == PushOutcome::kDuplicate);
  }
  SECTION("a key gets its row with the push that completes the count") {
    config.mutable_job()->mutable_admission()->set_min_count(5);
    TestCluster cluster(config, 1);
    TestBatch batch = Batch(0, 1, {{9, {-1, -1}}});
    batch.occurrences[9] = 2;
    CHECK(cluster.PushTo(0, batch).not_admitted == 1);
    batch.begin = 1, batch.end = 2;
    CHECK(cluster.PushTo(0, batch).not_admitted == 1);
    CHECK(cluster.Read(9) == std::vector<float>{0, 0});
    batch.begin = 2, batch.end = 3;
    CHECK(cluster.PushTo(0, batch).not_admitted == 0);
    CHECK(cluster.Read(9) == std::vector<float>{1, 1});
    CHECK(cluster.server(0).Report(1).not_admitted() == 2);
  }
  SECTION("above the soft limit no new rows, but old ones are still updated") {
    config.mutable_job()->mutable_memory()->set_soft_limit(1);
    TestCluster cluster(config, 1);
    CHECK(cluster.PushTo(0, Batch(0, 1, {{1, {1, 1}}})).memory_refused == 1);
    CHECK(cluster.server(0).Report(1).memory_refused() == 1);
    CHECK(cluster.server(0).Report(1).warning().find("soft_limit") != std::string::npos);
  }
  SECTION("above the hard limit a push that needs new rows changes nothing") {
    config.mutable_job()->mutable_memory()->set_hard_limit(40000);
    TestCluster cluster(config, 1);
    cluster.PushTo(0, Batch(0, 1, {{1, {-1, -1}}}));
    REQUIRE(cluster.last().ok());
    TestBatch many = Batch(1, 2, {{1, {-1, -1}}});
    for (uint64_t key = 10; key < 9000; ++key) many.rows[key] = {1, 1};
    cluster.PushTo(0, many);
    CHECK(cluster.last().code() == absl::StatusCode::kResourceExhausted);
    CHECK(cluster.Read(1) == std::vector<float>{1, 1});
    CHECK(cluster.server(0).Report(1).rows() == 1);
    CHECK(Uniform(cluster.PushTo(0, Batch(1, 2, {{1, {-1, -1}}})), 1) == PushOutcome::kAccepted);
    CHECK(cluster.Read(1) == std::vector<float>{2, 2});
  }
}

TEST_CASE("TTL: an untouched row is gone exactly when its time is up, and its cell is clean", "[server][unit]") {
  JobConfig config = TestCluster::DefaultConfig();
  config.mutable_job()->set_partitions(1);
  config.mutable_job()->mutable_ttl()->set_examples(10);
  TestCluster cluster(config, 1);
  cluster.PushTo(0, Batch(0, 5, {{1, {-1, -1}}, {2, {-1, -1}}}));
  cluster.PushTo(0, Batch(5, 14, {{2, {-1, -1}}}));
  CHECK(cluster.Read(1) == std::vector<float>{1, 1});
  cluster.PushTo(0, Batch(14, 15, {{3, {-3, -3}}}));
  CHECK(cluster.Read(1) == std::vector<float>{0, 0});
  CHECK(cluster.Read(2) == std::vector<float>{2, 2});
  cluster.PushTo(0, Batch(15, 16, {{1, {-7, -7}}}));
  CHECK(cluster.Read(1) == std::vector<float>{7, 7});
  CHECK(cluster.server(0).Report(1).expired() == 1);
}

TEST_CASE("TTL: one that is longer than any training never ends", "[server][unit]") {
  JobConfig config = TestCluster::DefaultConfig();
  config.mutable_job()->mutable_ttl()->set_examples(~uint64_t{0});
  TestCluster cluster(config, 1);
  cluster.PushTo(0, Batch(0, 5, {{1, {-1, -1}}}));
  cluster.PushTo(0, Batch(5, 14, {{2, {-1, -1}}}));
  CHECK(cluster.Read(1) == std::vector<float>{1, 1});
}

TEST_CASE("Threads push and pull at once; every example counts once per partition", "[server][unit]") {
  JobConfig config = TestCluster::DefaultConfig();
  config.mutable_job()->mutable_sync()->mutable_ssp()->set_staleness(1000);
  TestCluster cluster(config, 1);
  // One request per thread, built by hand: TestCluster is not thread-safe.
  constexpr int kThreads = 4, kBatches = 200;
  const std::vector<uint32_t> partitions = cluster.PartitionsOf(0);
  std::vector<uint64_t> keys;
  std::vector<uint32_t> counts;
  for (uint32_t p : partitions) {
    uint32_t count = 0;
    for (uint64_t key = 0; key < 64; ++key) {
      if (PartitionOfKey(key, 8) == p) keys.push_back(key), ++count;
    }
    counts.push_back(count);
  }
  const std::vector<uint32_t> tables = {0};
  const std::vector<float> gradients(keys.size() * 2, -1);
  std::vector<int> failures(kThreads, 0);
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::vector<float> rows(keys.size() * 2), dense(12);
      for (uint64_t b = 0; b < kBatches; ++b) {
        PullRequest pull;
        pull.header = cluster.Header(static_cast<uint64_t>(t) + 1);
        pull.batch = pull.finished = b;
        pull.partitions = partitions;
        pull.groups.push_back({keys, counts, tables});
        PullReply pulled;
        pulled.rows = {{rows.data()}};
        pulled.dense = dense.data();
        cluster.server(0).Pull(&pull, absl::Seconds(1), &pulled, [&](absl::Status s) { failures[t] += !s.ok(); });
        PushRequest push;
        push.header = pull.header;
        push.split = static_cast<uint64_t>(t);
        push.lease = static_cast<uint64_t>(t) + 1;
        push.begin = b;
        push.end = b + 1;
        push.examples = 1;
        push.partitions = partitions;
        push.groups.push_back({keys, counts, tables, {gradients.data()}, {}});
        PushReply pushed;
        for (int repeat = 0; repeat < 2; ++repeat) {
          cluster.server(0).Push(&push, &pushed, [&](absl::Status s) { failures[t] += !s.ok(); });
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(failures == std::vector<int>(kThreads, 0));
  for (uint64_t key = 0; key < 64; ++key) CHECK(cluster.Read(key)[0] == kThreads * kBatches);
}

}  // namespace
}  // namespace shoal
