// Copies between servers over real gRPC.
#include <catch2/catch.hpp>
#include <iostream>

#include "absl/synchronization/notification.h"
#include "server/rpc/grpc_replica_client.h"
#include "server/rpc/parameter_service.h"
#include "server/test_cluster.h"

namespace shoal {
namespace {

constexpr absl::Duration kTimeout = absl::Seconds(10);

TestBatch Batch(uint64_t number) {
  TestBatch batch;
  batch.begin = 10 * number;
  batch.end = 10 * number + 10;
  for (uint64_t key = 0; key < 60; ++key) batch.rows[key] = {-1, -static_cast<float>(number)};
  return batch;
}

absl::StatusOr<ReplicaReply> Call(ReplicaClient* client, const ReplicaRequest& request) {
  absl::StatusOr<ReplicaReply> out = absl::UnknownError("not called");
  absl::Notification done;
  client->Replicate(request, kTimeout, [&](absl::StatusOr<ReplicaReply> reply) {
    out = std::move(reply);
    done.Notify();
  });
  done.WaitForNotification();
  return out;
}

// A job on two servers that reach each other by gRPC.
struct Rig {
  Rig() : cluster(TestCluster::DefaultConfig(), 2) {
    for (int s = 0; s < 2; ++s) {
      auto started = ParameterGrpcServer::Start(&cluster.server(s), {});
      REQUIRE(started.ok());
      grpc.push_back(*std::move(started));
      auto client = GrpcReplicaClient::Create(grpc.back()->address());
      REQUIRE(client.ok());
      clients.push_back(*std::move(client));
    }
    cluster.network().transport = [this](uint64_t process, const ReplicaRequest& request) {
      return Call(clients[process - 100].get(), request);
    };
    cluster.Push(Batch(0));
    cluster.Publish(0, {5});
  }
  void CheckCounts(uint64_t batches) {
    for (uint64_t key = 0; key < 60; ++key) REQUIRE(cluster.Read(key)[0] == static_cast<float>(batches));
  }
  TestCluster cluster;
  std::vector<std::unique_ptr<ParameterGrpcServer>> grpc;
  std::vector<std::unique_ptr<GrpcReplicaClient>> clients;
};

TEST_CASE("Replication over gRPC: a move and a backup, also when requests and replies get lost", "[rpc]") {
  Rig rig;
  const ReplicaFate fate =
      GENERATE(ReplicaFate::kDeliver, ReplicaFate::kLoseRequest, ReplicaFate::kLoseReply, ReplicaFate::kDouble);
  uint64_t count = 0;
  rig.cluster.network().fate = [&](const ReplicaRequest&) { return ++count % 2 == 1 ? fate : ReplicaFate::kDeliver; };
  const std::vector<uint32_t> moved = {0, 2};
  REQUIRE(rig.cluster.Copy(Task::MOVE_PARTITIONS, 5, 0, moved, 1).ok());
  rig.cluster.Give(moved, 1);
  const std::vector<uint32_t> backed = {4, 6};
  rig.cluster.Back(backed, 1);
  rig.cluster.Publish(0, {6});
  const absl::Status added = rig.cluster.Copy(Task::ADD_BACKUP, 6, 0, backed, 1);
  // One that got lost is repeated by Tick, for which the clock stands still here.
  if (fate == ReplicaFate::kDeliver || fate == ReplicaFate::kDouble) REQUIRE(added.ok());
  rig.cluster.network().fate = nullptr;
  rig.cluster.Push(Batch(1));
  rig.cluster.clock().Advance(absl::Seconds(1));
  rig.cluster.server(0).Tick();
  CHECK(rig.cluster.outstanding() == 0);
  CHECK(rig.cluster.last().ok());
  rig.CheckCounts(2);
  // The backup takes over.
  rig.cluster.Give(backed, 1);
  rig.cluster.Back(backed, -1);
  rig.cluster.Publish();
  rig.CheckCounts(2);
}

TEST_CASE("Replication over gRPC: what does not fit is refused by name", "[rpc]") {
  Rig rig;
  ReplicaRequest good;
  good.set_job(1);
  good.set_run(1);
  good.set_map_version(1);
  good.set_source(100);
  good.set_target(101);
  ReplicaPiece* piece = good.add_pieces();
  piece->set_partition(0);
  piece->set_link(1);
  piece->set_full(true);
  piece->set_version(1);
  piece->set_bytes(std::string(100, 'x'));
  piece->set_total_bytes(100);
  const auto refused = [&](const char* what, absl::StatusCode code, auto change) {
    ReplicaRequest request = good;
    change(&request);
    const absl::StatusOr<ReplicaReply> reply = Call(rig.clients[1].get(), request);
    absl::Status status = reply.status();
    if (reply.ok()) {
      REQUIRE(reply->refused_size() == 1);
      status = absl::Status(static_cast<absl::StatusCode>(reply->refused(0).code()), reply->refused(0).message());
    }
    INFO(what << ": " << status.ToString());
    CHECK(status.code() == code);
    CHECK(status.message().find(what) != absl::string_view::npos);
  };
  using Code = absl::StatusCode;
  refused("job 9", Code::kUnavailable, [](ReplicaRequest* r) { r->set_job(9); });
  refused("map_version: 0", Code::kUnavailable, [](ReplicaRequest* r) { r->set_map_version(0); });
  refused("bytes: 100", Code::kInvalidArgument, [](ReplicaRequest* r) { r->mutable_pieces(0)->set_total_bytes(99); });
  refused("image", Code::kFailedPrecondition, [](ReplicaRequest*) {});  // not one
  refused("image", Code::kFailedPrecondition, [](ReplicaRequest* r) {   // cut short
    r->mutable_pieces(0)->set_bytes("SHOALIMG");
    r->mutable_pieces(0)->set_total_bytes(8);
  });
  CHECK(rig.cluster.server(1).ReportDone(1)->size() == 4);
}

TEST_CASE("Replication over gRPC: a server that is gone is UNAVAILABLE, and the source serves on", "[rpc]") {
  Rig rig;
  rig.grpc[1].reset();
  CHECK(rig.cluster.Copy(Task::MOVE_PARTITIONS, 5, 0, {0}, 1).code() == absl::StatusCode::kUnavailable);
  CHECK(rig.cluster.PushTo(0, Batch(1)).exceptions.empty());
  CHECK(GrpcReplicaClient::Create("no-port").status().code() == absl::StatusCode::kInvalidArgument);
}

// On demand: what a move of a million rows, and a backup, cost over the loopback interface.
TEST_CASE("Replication over gRPC: figures", "[.][bench]") {
  Rig rig;
  for (uint64_t part = 0; part < 10; ++part) {
    TestBatch batch;
    batch.split = 1;
    batch.begin = part;
    batch.end = part + 1;
    for (uint64_t i = 0; i < 200000; ++i) batch.rows[part * 200000 + i] = {-1, -1};
    rig.cluster.Push(batch);
  }
  const std::vector<uint32_t> all = rig.cluster.PartitionsOf(0);
  rig.cluster.Back(all, 1);
  rig.cluster.Publish(0, {6});
  REQUIRE(rig.cluster.Copy(Task::ADD_BACKUP, 6, 0, all, 1).ok());
  std::cout << "backup: " << rig.cluster.report() << "\n";
  const absl::Duration begin = Clock::Steady().Now();
  for (uint64_t number = 1; number <= 100; ++number) rig.cluster.PushTo(0, Batch(number));
  std::cout << "push with a backup: " << absl::FormatDuration((Clock::Steady().Now() - begin) / 100) << "\n";
  CHECK(rig.cluster.outstanding() == 0);
  rig.cluster.Back(all, -1);
  rig.cluster.Publish(0, {7});
  const absl::Duration alone = Clock::Steady().Now();
  for (uint64_t number = 101; number <= 200; ++number) rig.cluster.PushTo(0, Batch(number));
  std::cout << "push without: " << absl::FormatDuration((Clock::Steady().Now() - alone) / 100) << "\n";
  REQUIRE(rig.cluster.Copy(Task::MOVE_PARTITIONS, 7, 0, all, 1).ok());
  std::cout << "move: " << rig.cluster.report() << "\n";
}

}  // namespace
}  // namespace shoal
