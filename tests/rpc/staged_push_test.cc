// Pushes that arrive in pieces: whatever happens between two pieces, a push is applied whole or not at all.
#include <algorithm>
#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/hash.h"
#include "proto/parameters_service.grpc.pb.h"
#include "proto/rpc/rpc_options.h"
#include "proto/wire/parameter_codec.h"
#include "server/parameter_server.h"
#include "server/rpc/parameter_service.h"

namespace shoal {
namespace {

constexpr uint64_t kJob = 5, kSelf = 9, kLane = 1;
constexpr uint32_t kPartitions = 4, kDim = 3;
constexpr uint64_t kKeys = 200;

// One server, a job of one table whose rows are the sums of what is pushed, and a stub made from the proto file.
class Rig {
 public:
  explicit Rig(bool bsp = false) {
    Job* job = config_.mutable_job();
    job->set_partitions(kPartitions);
    job->mutable_optimizer()->mutable_sparse()->mutable_sgd()->set_learning_rate(-1);
    job->mutable_batch()->set_reduce(BatchConfig::SUM);
    if (bsp) {
      job->mutable_sync()->mutable_bsp()->set_lanes(1);
    } else {
      job->mutable_sync()->mutable_asp();
    }
    job->mutable_guard()->set_off(true);
    job->mutable_data()->set_passes(1);
    config_.mutable_plan()->mutable_train()->add_splits();
    TableSpec* table = config_.mutable_plan()->mutable_model()->add_tables();
    table->set_name("t");
    table->set_dim(kDim);
    view_.set_job(kJob);
    view_.set_run(1);
    view_.set_state(RUNNING);
    view_.set_map_version(1);
    view_.add_servers()->set_process(kSelf);
    view_.add_servers()->set_process(kSelf + 1);
    for (uint32_t p = 0; p < kPartitions; ++p) view_.add_owner(0);
    view_.set_live_version(1);
    view_.set_next_lane(3);
    view_.add_lanes()->set_lane(kLane);
    view_.add_lanes()->set_lane(2);
    ParameterServerOptions options;
    options.clock = &clock_;
    server_ = std::make_unique<ParameterServer>(options);
    REQUIRE(server_->PrepareJob(config_, view_, kSelf, "").ok());
    server_->UpdateView(view_);
    grpc_ = ParameterGrpcServer::Start(server_.get(), {}).value();
    stub_ = wire::ParameterService::NewStub(MakeChannel(grpc_->address(), 0));
    Open(kLane, 1);
  }

  JobView& view() { return view_; }
  FakeClock& clock() { return clock_; }
  ParameterServer& server() { return *server_; }

  wire::OpenSplitReply Open(uint64_t lane, uint64_t lease) {
    wire::OpenSplitRequest request;
    *request.mutable_header() = Header(lane);
    request.set_lease(lease);
    wire::OpenSplitReply reply;
    grpc::ClientContext context;
    REQUIRE(stub_->OpenSplit(&context, request, &reply).ok());
    return reply;
  }

  // Ones for every key, as the bytes of a PushRequest by `lane` with lease 1.
  std::string Encoded(uint64_t lane = kLane) {
    std::vector<std::vector<uint64_t>> by_partition(kPartitions);
    for (uint64_t i = 0; i < kKeys; ++i) by_partition[PartitionOfKey(Mix64(i), kPartitions)].push_back(Mix64(i));
    std::vector<uint64_t> keys;
    std::vector<uint32_t> counts, partitions;
    for (uint32_t p = 0; p < kPartitions; ++p) {
      partitions.push_back(p);
      counts.push_back(static_cast<uint32_t>(by_partition[p].size()));
      keys.insert(keys.end(), by_partition[p].begin(), by_partition[p].end());
    }
    const std::vector<uint32_t> tables = {0}, dims = {kDim};
    const std::vector<float> ones(kKeys * kDim, 1);
    PushRequest push;
    push.header = {kJob, 1, view_.map_version(), lane};
    push.lease = 1;
    push.end = push.examples = 1;
    push.partitions = partitions;
    push.groups = {{keys, counts, tables, {ones.data()}, {}, dims}};
    const ByteArray bytes = EncodePushRequest(push, 1 << 20).value();
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  grpc::Status Send(const std::string& whole, size_t offset, size_t size, wire::PushReply* reply, uint64_t attempt = 1,
                    uint64_t lane = kLane) {
    wire::PushPiece piece;
    *piece.mutable_header() = Header(lane);
    piece.set_attempt(attempt);
    piece.set_total_bytes(whole.size());
    piece.set_offset(offset);
    piece.set_bytes(whole.substr(offset, size));
    grpc::ClientContext context;
    return stub_->StagePush(&context, piece, reply);
  }

  // The sum of all rows.
  float Sum() {
    float sum = 0;
    for (uint64_t i = 0; i < kKeys; ++i) {
      const uint64_t key = Mix64(i);
      const uint32_t partition = PartitionOfKey(key, kPartitions), count = 1, table = 0;
      if (view_.owner(static_cast<int>(partition)) != 0) continue;
      wire::PullRequest request;
      *request.mutable_header() = Header(0);
      request.set_read_only(true);
      request.set_partitions(&partition, 4);
      wire::PullGroup* group = request.add_groups();
      group->set_tables(&table, 4);
      group->set_counts(&count, 4);
      group->set_keys(&key, 8);
      wire::PullReply reply;
      grpc::ClientContext context;
      REQUIRE(stub_->Pull(&context, request, &reply).ok());
      REQUIRE(reply.values().size() == kDim * sizeof(float));
      float row[kDim];
      std::copy(reply.values().begin(), reply.values().end(), reinterpret_cast<char*>(row));
      for (float value : row) sum += value;
    }
    return sum;
  }

  // bsp: ends the round.
  void Mark() {
    wire::MarkRequest request;
    *request.mutable_header() = Header(kLane);
    request.set_has_round(true);
    wire::MarkReply reply;
    grpc::ClientContext context;
    REQUIRE(stub_->Mark(&context, request, &reply).ok());
  }

 private:
  wire::Header Header(uint64_t lane) const {
    wire::Header header;
    header.set_job(kJob);
    header.set_run(1);
    header.set_map_version(view_.map_version());
    header.set_lane(lane);
    return header;
  }

  JobConfig config_;
  JobView view_;
  FakeClock clock_;
  std::unique_ptr<ParameterServer> server_;
  std::unique_ptr<ParameterGrpcServer> grpc_;
  std::unique_ptr<wire::ParameterService::Stub> stub_;
};

constexpr float kAll = kKeys * kDim;

TEST_CASE("Staged push: applied once, with its last piece, whatever comes twice or out of order", "[rpc][unit]") {
  const bool bsp = GENERATE(false, true);
  Rig rig(bsp);
  const std::string whole = rig.Encoded();
  wire::PushReply reply;
  for (size_t offset : {2000, 0, 2000, 1000}) {
    REQUIRE(rig.Send(whole, offset, 1000, &reply).ok());
    CHECK(reply.staged());
  }
  CHECK(rig.server().StagedBytes() >= whole.size());
  CHECK(rig.Sum() == 0);
  CHECK(rig.Open(kLane, 1).watermarks(0) == 0);
  REQUIRE(rig.Send(whole, 3000, whole.size(), &reply).ok());
  CHECK_FALSE(reply.staged());
  CHECK(reply.exceptions_size() == 0);
  CHECK(rig.server().StagedBytes() == 0);
  // A piece that the network kept back says nothing new.
  REQUIRE(rig.Send(whole, 1000, 1000, &reply).ok());
  CHECK(reply.staged());
  CHECK(rig.server().StagedBytes() == 0);
  if (bsp) rig.Mark();
  CHECK(rig.Sum() == kAll);
  CHECK(rig.Open(kLane, 1).watermarks(0) == 1);
  // The reply got lost: the whole push comes again, as another attempt.
  REQUIRE(rig.Send(whole, 0, 3000, &reply, 2).ok());
  REQUIRE(rig.Send(whole, 3000, whole.size(), &reply, 2).ok());
  REQUIRE(reply.exceptions_size() == static_cast<int>(kPartitions));
  for (const wire::PartitionAnswer& answer : reply.exceptions()) CHECK(answer.outcome() == wire::DUPLICATE);
  CHECK(rig.Sum() == kAll);
}

TEST_CASE("Staged push: what a lane sent that died, or went silent, is freed and never applied", "[rpc][unit]") {
  Rig rig;
  const std::string whole = rig.Encoded();
  wire::PushReply reply;
  REQUIRE(rig.Send(whole, 0, 3000, &reply).ok());
  CHECK(rig.server().StagedBytes() > 0);
  SECTION("removed from the live set") {
    rig.view().mutable_lanes()->DeleteSubrange(0, 1);
    rig.view().set_live_version(2);
    rig.server().UpdateView(rig.view());
    rig.server().Tick();
    CHECK(rig.server().StagedBytes() == 0);
    REQUIRE(rig.Send(whole, 3000, whole.size(), &reply).ok());
    CHECK(reply.outcome() == wire::FENCED);
  }
  SECTION("silent") {
    rig.clock().Advance(absl::Seconds(31));
    rig.server().Tick();
    CHECK(rig.server().StagedBytes() == 0);
    REQUIRE(rig.Send(whole, 3000, whole.size(), &reply).ok());
    CHECK(reply.staged());
  }
  SECTION("begun anew: the pieces of two attempts do not make one push") {
    REQUIRE(rig.Send(whole, 3000, whole.size(), &reply, 2).ok());
    CHECK(reply.staged());
  }
  SECTION("of a job that ended") {
    rig.server().DropJob(kJob);
    rig.server().Tick();
    CHECK(rig.server().StagedBytes() == 0);
    return;
  }
  CHECK(rig.Sum() == 0);
  CHECK(rig.Open(2, 1).watermarks(0) == 0);
}

TEST_CASE("Staged push: judged when it is complete, by the lease and the map of then", "[rpc][unit]") {
  const bool bsp = GENERATE(false, true);
  Rig rig(bsp);
  const std::string whole = rig.Encoded();
  wire::PushReply reply;
  REQUIRE(rig.Send(whole, 0, 3000, &reply).ok());
  SECTION("another lane has the split") {
    rig.Open(2, 7);
    REQUIRE(rig.Send(whole, 3000, whole.size(), &reply).ok());
    REQUIRE(reply.exceptions_size() == static_cast<int>(kPartitions));
    for (const wire::PartitionAnswer& answer : reply.exceptions()) CHECK(answer.outcome() == wire::PARTITION_FENCED);
    CHECK(rig.Sum() == 0);
  }
  SECTION("a partition has moved") {
    rig.view().set_map_version(2);
    rig.view().set_owner(3, 1);
    rig.server().UpdateView(rig.view());
    REQUIRE(rig.Send(whole, 3000, whole.size(), &reply).ok());
    // bsp takes a round whole or not at all.
    REQUIRE(reply.exceptions_size() == (bsp ? static_cast<int>(kPartitions) : 1));
    for (const wire::PartitionAnswer& answer : reply.exceptions()) CHECK(answer.outcome() == wire::PARTITION_STALE_MAP);
    CHECK((rig.Sum() > 0) == !bsp);
  }
  CHECK(rig.server().StagedBytes() == 0);
}

TEST_CASE("Staged push: pieces of what is not a push are refused by name", "[rpc][unit]") {
  Rig rig;
  std::string whole = rig.Encoded();
  wire::PushReply reply;
  whole[whole.size() - 1] = '\xff';
  whole.append("\xff");
  REQUIRE(rig.Send(whole, 0, 3000, &reply).ok());
  const grpc::Status bad = rig.Send(whole, 3000, whole.size(), &reply);
  CHECK(bad.error_code() == grpc::StatusCode::INVALID_ARGUMENT);
  CHECK(rig.server().StagedBytes() == 0);
  const grpc::Status beyond = rig.Send(whole, whole.size() - 1, 1, &reply, 2, 0);
  CHECK(beyond.error_code() == grpc::StatusCode::INVALID_ARGUMENT);
  CHECK(rig.Sum() == 0);
}

}  // namespace
}  // namespace shoal
