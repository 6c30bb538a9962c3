// Parameters across a real connection: a ParameterServer, its gRPC server and a client.
#include <catch2/catch.hpp>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "absl/synchronization/notification.h"
#include "base/hash.h"
#include "proto/parameters_service.grpc.pb.h"
#include "proto/rpc/rpc_options.h"
#include "proto/rpc/ticker.h"
#include "server/parameter_server.h"
#include "server/rpc/parameter_service.h"
#include "tests/testing/faulty_parameter_client.h"
#include "worker/client/grpc_parameter_client.h"

namespace shoal {
namespace {

using Catch::Contains;

constexpr uint64_t kJob = 5;
constexpr uint64_t kSelf = 9;
constexpr uint32_t kPartitions = 8;
constexpr absl::Duration kTimeout = absl::Seconds(60);

// Waits for a call and returns its status.
absl::Status Await(const std::function<void(ParameterClient::Done)>& start) {
  absl::Notification done;
  absl::Status result;
  start([&](absl::Status status) {
    result = std::move(status);
    done.Notify();
  });
  if (!done.WaitForNotificationWithTimeout(absl::Seconds(120))) return absl::InternalError("never answered");
  return result;
}

// Tables "wide" of 3 and "narrow" of 1 floats, a tensor of `tensor` floats; sgd with rate -1: rows are sums of pushes.
JobConfig Config(uint64_t tensor, bool bounded) {
  JobConfig config;
  Job* job = config.mutable_job();
  job->set_name("test");
  job->set_partitions(kPartitions);
  job->mutable_optimizer()->mutable_sparse()->mutable_sgd()->set_learning_rate(-1);
  job->mutable_optimizer()->mutable_dense()->mutable_sgd()->set_learning_rate(-1);
  job->mutable_batch()->set_reduce(BatchConfig::SUM);
  if (bounded) {
    job->mutable_sync()->mutable_ssp()->set_staleness(0);
  } else {
    job->mutable_sync()->mutable_asp();
  }
  job->mutable_guard()->set_off(true);
  job->mutable_data()->set_passes(1);
  for (int i = 0; i < 4; ++i) config.mutable_plan()->mutable_train()->add_splits();
  ModelSpec* model = config.mutable_plan()->mutable_model();
  for (const auto& [name, dim] : {std::pair<const char*, uint32_t>{"wide", 3}, {"narrow", 1}}) {
    TableSpec* table = model->add_tables();
    table->set_name(name);
    table->set_dim(dim);
  }
  TensorSpec* spec = model->add_tensors();
  spec->set_name("weights");
  spec->add_shape(tensor);
  return config;
}

// All partitions on this server, lanes 1 and 2 live.
JobView View() {
  JobView view;
  view.set_job(kJob);
  view.set_run(1);
  view.set_state(RUNNING);
  view.set_map_version(4);
  for (uint32_t p = 0; p < kPartitions; ++p) view.add_owner(0);
  ServerAddress* server = view.add_servers();
  server->set_process(kSelf);
  view.set_live_version(1);
  view.set_next_lane(3);
  view.add_lanes()->set_lane(1);
  view.add_lanes()->set_lane(2);
  return view;
}

struct Rig {
  std::unique_ptr<ParameterServer> server;
  std::unique_ptr<ParameterGrpcServer> grpc;
  std::unique_ptr<GrpcParameterClient> client;
  std::unique_ptr<Ticker> ticker;
};

Rig Start(uint64_t tensor, bool bounded) {
  Rig rig;
  ParameterServerOptions options;
  options.name = "s0";
  rig.server = std::make_unique<ParameterServer>(options);
  const absl::Status prepared = rig.server->PrepareJob(Config(tensor, bounded), View(), kSelf, "");
  INFO(prepared);
  REQUIRE(prepared.ok());
  rig.server->UpdateView(View());
  auto grpc = ParameterGrpcServer::Start(rig.server.get(), {});
  REQUIRE(grpc.ok());
  rig.grpc = *std::move(grpc);
  auto client = GrpcParameterClient::Create(rig.grpc->address());
  REQUIRE(client.ok());
  rig.client = *std::move(client);
  ParameterServer* const server = rig.server.get();
  rig.ticker = std::make_unique<Ticker>(absl::Milliseconds(20), [server] { server->Tick(); });
  return rig;
}

// A batch of `n` keys of both tables and `dense` floats, with the memory of its pull and push.
struct Batch {
  std::vector<uint32_t> partitions = std::vector<uint32_t>(kPartitions);
  std::vector<uint64_t> keys;
  std::vector<uint32_t> counts, tables{0, 1}, dims{3, 1};
  std::vector<float> wide, narrow, dense;
  PullRequest pull;
  PullReply pull_reply;
  PushRequest push;
  PushReply push_reply;

  Batch(size_t n, size_t dense_floats) : wide(3 * n), narrow(n), dense(dense_floats) {
    std::iota(partitions.begin(), partitions.end(), 0u);
    std::vector<std::vector<uint64_t>> by_partition(kPartitions);
    for (uint64_t i = 0; i < n; ++i) by_partition[PartitionOfKey(Mix64(i), kPartitions)].push_back(Mix64(i));
    for (const std::vector<uint64_t>& some : by_partition) {
      keys.insert(keys.end(), some.begin(), some.end());
      counts.push_back(static_cast<uint32_t>(some.size()));
    }
    pull.header = push.header = {kJob, 1, 4, 1};
    pull.partitions = push.partitions = partitions;
    pull.groups = {{keys, counts, tables, dims}};
    pull_reply.rows = {{wide.data(), narrow.data()}};
    pull_reply.dense = dense.data();
    pull_reply.dense_floats = dense.size();
    PushGroup group;
    group.keys = keys;
    group.counts = counts;
    group.tables = tables;
    group.dims = dims;
    group.gradients = {wide.data(), narrow.data()};
    push.groups = {group};
    push.dense = dense;
    push.lease = 1;
    push.end = push.examples = 1;
  }
  void Fill(float scale) {
    for (size_t i = 0; i < wide.size(); ++i) wide[i] = scale * static_cast<float>(i % 1000);
    for (size_t i = 0; i < narrow.size(); ++i) narrow[i] = -scale * static_cast<float>(i % 1000);
    for (size_t i = 0; i < dense.size(); ++i) dense[i] = scale * static_cast<float>(i % 1000 + 1);
  }
  bool Holds(float scale) const {
    Batch other(keys.size(), dense.size());
    other.Fill(scale);
    return other.wide == wide && other.narrow == narrow && other.dense == dense;
  }
  void Clear() {
    for (std::vector<float>* values : {&wide, &narrow, &dense}) std::fill(values->begin(), values->end(), -7.f);
  }
};

absl::Status Pull(ParameterClient* client, Batch* batch, absl::Duration timeout = kTimeout) {
  return Await([&](auto done) { client->Pull(&batch->pull, timeout, &batch->pull_reply, std::move(done)); });
}

absl::Status Push(ParameterClient* client, Batch* batch) {
  return Await([&](auto done) { client->Push(&batch->push, kTimeout, &batch->push_reply, std::move(done)); });
}

absl::Status Open(ParameterClient* client, uint64_t lease, OpenSplitReply* reply, uint64_t job = kJob) {
  OpenSplitRequest request;
  request.header = {job, 1, 4, 1};
  request.lease = lease;
  return Await([&](auto done) { client->OpenSplit(&request, kTimeout, reply, std::move(done)); });
}

TEST_CASE("Parameter rpc: what is pushed is pulled, at odd sizes", "[rpc][unit]") {
  const size_t keys = GENERATE(0, 1, 7, 1001);
  Rig rig = Start(513, false);
  OpenSplitReply open;
  REQUIRE(Open(rig.client.get(), 1, &open).ok());
  CHECK(open.outcome == RequestOutcome::kOk);
  CHECK(open.watermarks == std::vector<uint64_t>{0});
  Batch batch(keys, 513);
  batch.Clear();
  REQUIRE(Pull(rig.client.get(), &batch).ok());
  CHECK(batch.pull_reply.map_version == 4);
  CHECK(batch.Holds(0));
  batch.Fill(0.5f);
  REQUIRE(Push(rig.client.get(), &batch).ok());
  CHECK(batch.push_reply.outcome == RequestOutcome::kOk);
  CHECK(batch.push_reply.exceptions.empty());
  batch.Clear();
  REQUIRE(Pull(rig.client.get(), &batch).ok());
  CHECK(batch.Holds(0.5f));
  REQUIRE(Open(rig.client.get(), 2, &open).ok());
  CHECK(open.watermarks == std::vector<uint64_t>{1});
  REQUIRE(Push(rig.client.get(), &batch).ok());
  REQUIRE(batch.push_reply.exceptions.size() == kPartitions);
  CHECK(batch.push_reply.exceptions[0].outcome == PushOutcome::kFenced);
}

TEST_CASE("Parameter rpc: 68 MB of dense values go both ways", "[rpc][unit]") {
  constexpr size_t kDense = 17'000'000;
  Rig rig = Start(kDense, false);
  OpenSplitReply open;
  REQUIRE(Open(rig.client.get(), 1, &open).ok());
  Batch batch(11, kDense);
  batch.Fill(1);
  REQUIRE(Push(rig.client.get(), &batch).ok());
  batch.Clear();
  REQUIRE(Pull(rig.client.get(), &batch).ok());
  CHECK(batch.Holds(1));
}

TEST_CASE("Parameter rpc: errors of the server arrive with code and message", "[rpc][unit]") {
  Rig rig = Start(5, false);
  OpenSplitReply open;
  CHECK(Open(rig.client.get(), 1, &open, 777).code() == absl::StatusCode::kNotFound);
  REQUIRE(Open(rig.client.get(), 1, &open).ok());
  Batch batch(3, 5);
  SECTION("wrong dims of a push") {
    batch.dims = {2, 1};
    const absl::Status status = Push(rig.client.get(), &batch);
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    CHECK_THAT(std::string(status.message()),
               Contains("PushRequest.groups[0].dims[0]: 2, which makes 6 floats, must be 9"));
  }
  SECTION("wrong number of dense floats") {
    batch.push.dense = batch.push.dense.subspan(1);
    const absl::Status status = Push(rig.client.get(), &batch);
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    CHECK_THAT(std::string(status.message()), Contains("PushRequest.dense_floats: 4, must be 0 or 5"));
  }
  SECTION("destinations of another size") {
    batch.pull_reply.dense_floats = 4;
    const absl::Status status = Pull(rig.client.get(), &batch);
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    CHECK_THAT(std::string(status.message()), Contains("must be"));
  }
  SECTION("destinations of unknown size are refused before anything is sent") {
    batch.pull.groups[0].dims = {};
    CHECK_THAT(std::string(Pull(rig.client.get(), &batch).message()), Contains("PullRequest.groups.dims: 0 elements"));
  }
  SECTION("unknown table") {
    batch.tables = {0, 2};
    CHECK(Pull(rig.client.get(), &batch).code() == absl::StatusCode::kInvalidArgument);
    CHECK(Push(rig.client.get(), &batch).code() == absl::StatusCode::kInvalidArgument);
  }
  SECTION("unknown partition") {
    batch.partitions.back() = 100000;
    CHECK_FALSE(Pull(rig.client.get(), &batch).ok());
    CHECK_FALSE(Push(rig.client.get(), &batch).ok());
  }
  // Nothing of this was applied.
  Batch after(3, 5);
  after.Clear();
  REQUIRE(Pull(rig.client.get(), &after).ok());
  CHECK(after.Holds(0));
}

TEST_CASE("Parameter rpc: a partition that has moved is refused with the newer map", "[rpc][unit]") {
  Rig rig = Start(5, false);
  OpenSplitReply open;
  REQUIRE(Open(rig.client.get(), 1, &open).ok());
  JobView moved = View();
  moved.set_map_version(5);
  moved.add_servers()->set_process(kSelf + 1);
  moved.set_owner(3, 1);
  rig.server->UpdateView(moved);
  Batch batch(20, 5);
  batch.Fill(1);
  REQUIRE(Pull(rig.client.get(), &batch).ok());
  CHECK(batch.pull_reply.outcome == RequestOutcome::kStaleMap);
  CHECK(batch.pull_reply.map_version == 5);
  REQUIRE(Push(rig.client.get(), &batch).ok());
  bool stale = batch.push_reply.outcome == RequestOutcome::kStaleMap;
  for (const PartitionAnswer& answer : batch.push_reply.exceptions) stale |= answer.outcome == PushOutcome::kStaleMap;
  CHECK(stale);
}

TEST_CASE("Parameter rpc: a client made of nothing but the proto file is understood", "[rpc][unit]") {
  Rig rig = Start(5, false);
  const auto stub = wire::ParameterService::NewStub(MakeChannel(rig.grpc->address(), 0));
  wire::PullRequest request;
  request.mutable_header()->set_job(kJob);
  request.mutable_header()->set_run(1);
  request.mutable_header()->set_map_version(4);
  request.set_read_only(true);
  const uint64_t key = 12345;
  const uint32_t partition = PartitionOfKey(key, kPartitions), count = 1, table = 0;
  request.set_partitions(&partition, 4);
  wire::PullGroup* group = request.add_groups();
  group->set_tables(&table, 4);
  group->set_counts(&count, 4);
  group->set_keys(&key, 8);
  wire::PullReply reply;
  grpc::ClientContext good;
  REQUIRE(stub->Pull(&good, request, &reply).ok());
  CHECK(reply.outcome() == wire::OK);
  CHECK(reply.values() == std::string(12, '\0'));
  CHECK(reply.sizes() == std::string("\3\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16));
  group->set_keys(&key, 7);
  grpc::ClientContext bad;
  const grpc::Status status = stub->Pull(&bad, request, &reply);
  CHECK(status.error_code() == grpc::StatusCode::INVALID_ARGUMENT);
  CHECK_THAT(status.error_message(), Contains("groups.keys: 7 bytes, must be a multiple of 8"));
}

TEST_CASE("Parameter rpc: a pull whose values exceed a message is refused with the bound", "[rpc][unit]") {
  Rig rig = Start(5, false);
  Batch batch(1001, 5);
  // The same tables again and again: 1001 keys x 4 floats x 20,000.
  batch.tables.clear();
  batch.dims.clear();
  for (int i = 0; i < 20000; ++i) {
    batch.tables.insert(batch.tables.end(), {0, 1});
    batch.dims.insert(batch.dims.end(), {3, 1});
  }
  batch.pull.groups = {{batch.keys, batch.counts, batch.tables, batch.dims}};
  batch.pull_reply.rows[0].assign(40000, batch.wide.data());
  // A client that does not cut.
  MessageLimits limits;
  limits.part_bytes = uint64_t{1} << 40;
  const auto client = GrpcParameterClient::Create(rig.grpc->address(), limits).value();
  const absl::Status status = Pull(client.get(), &batch);
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  CHECK_THAT(std::string(status.message()), Contains("must be at most 3932160"));
  CHECK(Pull(rig.client.get(), &batch).ok());
}

TEST_CASE("Parameter rpc: a parked pull ends with ABORTED or when its gate opens", "[rpc][unit]") {
  Rig rig = Start(5, true);
  Batch first(3, 5), second(3, 5);
  first.pull.batch = first.pull.finished = 1;  // lane 2 has finished nothing
  CHECK(absl::IsAborted(Pull(rig.client.get(), &first, absl::Milliseconds(50))));
  second.pull.header.lane = 2;
  second.pull.batch = second.pull.finished = 1;
  absl::Notification released;
  absl::Status result;
  rig.client->Pull(&first.pull, kTimeout, &first.pull_reply, [&](absl::Status status) {
    result = status;
    released.Notify();
  });
  CHECK_FALSE(released.HasBeenNotified());
  REQUIRE(Pull(rig.client.get(), &second).ok());
  REQUIRE(released.WaitForNotificationWithTimeout(absl::Seconds(60)));
  CHECK(result.ok());
  CHECK(first.pull_reply.slowest_clock == 1);
}

TEST_CASE("Parameter rpc: shutdown answers parked pulls with UNAVAILABLE and does not hang", "[rpc][unit]") {
  Rig rig = Start(5, true);
  constexpr int kCalls = 20;
  std::vector<std::unique_ptr<Batch>> batches;
  std::vector<absl::Status> results(kCalls);
  std::vector<std::unique_ptr<absl::Notification>> ended;
  for (int i = 0; i < kCalls; ++i) {
    batches.push_back(std::make_unique<Batch>(3, 5));
    ended.push_back(std::make_unique<absl::Notification>());
    batches[i]->pull.batch = batches[i]->pull.finished = 1;
    rig.client->Pull(&batches[i]->pull, kTimeout, &batches[i]->pull_reply, [&, i](absl::Status status) {
      results[i] = status;
      ended[i]->Notify();
    });
  }
  const absl::Time start = absl::Now();
  rig.grpc->Shutdown(absl::Milliseconds(50));
  CHECK(absl::Now() - start < absl::Seconds(20));
  for (int i = 0; i < kCalls; ++i) {
    REQUIRE(ended[i]->WaitForNotificationWithTimeout(absl::Seconds(60)));
    CHECK(absl::IsUnavailable(results[i]));
  }
  // Nobody listens any more.
  OpenSplitReply open;
  CHECK(absl::IsUnavailable(Open(rig.client.get(), 1, &open)));
  // The parked pulls are answered when the service has gone already: nothing of it is touched.
  rig.grpc.reset();
  rig.server->DropJob(kJob);
  rig.ticker.reset();
  rig.server.reset();
}

TEST_CASE("Parameter rpc: a client that goes away cancels its calls and leaves the server working", "[rpc][unit]") {
  Rig rig = Start(5, true);
  Batch parked(3, 5);
  parked.pull.batch = parked.pull.finished = 1;
  absl::Status result;
  rig.client->Pull(&parked.pull, kTimeout, &parked.pull_reply, [&](absl::Status status) { result = status; });
  const std::string address = rig.grpc->address();
  rig.client.reset();
  CHECK_FALSE(result.ok());
  auto client = GrpcParameterClient::Create(address);
  REQUIRE(client.ok());
  Batch other(3, 5);
  CHECK(Pull(client->get(), &other).ok());
}

TEST_CASE("Parameter rpc: a server that comes back on its port is reached again", "[rpc][unit]") {
  Rig rig = Start(5, false);
  OpenSplitReply open;
  REQUIRE(Open(rig.client.get(), 1, &open).ok());
  GrpcServerOptions again;
  again.address = rig.grpc->address();
  CHECK_THAT(std::string(ParameterGrpcServer::Start(rig.server.get(), again).status().message()),
             Contains("cannot bind " + again.address + ": Address already in use"));
  rig.grpc.reset();
  const absl::Status down = Open(rig.client.get(), 1, &open);
  CHECK(absl::IsUnavailable(down));
  CHECK_THAT(std::string(down.message()), Contains(again.address));
  auto restarted = ParameterGrpcServer::Start(rig.server.get(), again);
  REQUIRE(restarted.ok());
  CHECK((*restarted)->address() == again.address);
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  absl::Status status = absl::UnavailableError("");
  while (absl::IsUnavailable(status) && absl::Now() < deadline) status = Open(rig.client.get(), 1, &open);
  CHECK(status.ok());
}

TEST_CASE("Parameter rpc: addresses that others can reach need insecure", "[rpc][unit]") {
  ParameterServer server(ParameterServerOptions{});
  GrpcServerOptions options;
  options.address = "0.0.0.0:0";
  const absl::Status refused = ParameterGrpcServer::Start(&server, options).status();
  CHECK(refused.code() == absl::StatusCode::kFailedPrecondition);
  CHECK_THAT(std::string(refused.message()), Contains("0.0.0.0:0") && Contains("--insecure"));
  options.insecure = true;
  auto grpc = ParameterGrpcServer::Start(&server, options);
  REQUIRE(grpc.ok());
  CHECK((*grpc)->address() != "0.0.0.0:0");
}

TEST_CASE("Parameter rpc: under a bad network every push counts once", "[rpc][unit]") {
  Rig rig = Start(5, false);
  FaultRates rates;
  rates.request_lost = rates.reply_lost = rates.doubled = rates.late = 0.15;
  auto counters = std::make_shared<FaultCounters>();
  FaultyParameterClient client(std::move(rig.client), FaultPlan::Uniform(11, rates), counters);
  Batch batch(33, 5);
  batch.Fill(1);
  const absl::Time deadline = absl::Now() + absl::Seconds(60);
  const auto insist = [&](const std::function<absl::Status()>& call) {
    absl::Status status = call();
    while (!status.ok() && absl::Now() < deadline) status = call();
    return status;
  };
  OpenSplitReply open;
  REQUIRE(insist([&] { return Open(&client, 1, &open); }).ok());
  uint64_t duplicates = 0;
  for (uint64_t i = 0; i < 100; ++i) {
    batch.push.begin = i;
    batch.push.end = i + 1;
    REQUIRE(insist([&] { return Push(&client, &batch); }).ok());
    for (const PartitionAnswer& answer : batch.push_reply.exceptions) {
      CHECK(answer.outcome == PushOutcome::kDuplicate);
      ++duplicates;
    }
  }
  CHECK(duplicates > 0);
  for (Fault fault : {Fault::kRequestLost, Fault::kReplyLost, Fault::kDoubled, Fault::kLate}) {
    CHECK(counters->Of(Method::kPush, fault) > 0);
  }
  REQUIRE(insist([&] { return Pull(&client, &batch); }).ok());
  CHECK(batch.Holds(100));
}

}  // namespace
}  // namespace shoal
