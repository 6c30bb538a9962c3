// Dense tensors that lanes and server share in one process: no copies, the same bits, nothing changes under a reader.
#include <catch2/catch.hpp>

#include "base/random.h"
#include "server/test_cluster.h"

namespace shoal {
namespace {

constexpr uint32_t kLanes = 2;
const std::vector<uint64_t> kSizes = {40000, 7};  // tensors "w", of three blocks, and "v"

JobConfig WithTensors(JobConfig config) {
  ModelSpec* model = config.mutable_plan()->mutable_model();
  model->mutable_tensors(0)->clear_shape();
  for (uint64_t extent : {200, 200}) model->mutable_tensors(0)->add_shape(extent);
  TensorSpec* tensor = model->add_tensors();
  tensor->set_name("v");
  tensor->add_shape(kSizes[1]);
  return config;
}

TensorValues Gradients(uint32_t lane, uint64_t round) {
  TensorValues out;
  for (uint64_t size : kSizes) {
    Random random({lane, round, size});
    out.emplace_back();
    for (uint64_t i = 0; i < size; ++i) out.back().push_back(static_cast<float>(random.Normal()));
  }
  return out;
}

// A lane of a job on one server, without sparse rows.
class DenseLane {
 public:
  DenseLane(TestCluster* cluster, const JobConfig& config, uint32_t lane)
      : cluster_(*cluster), layout_(*DenseLayout::Create(config.plan().model(), 8)), lane_(lane) {
    for (uint64_t size : kSizes) own_.emplace_back(size, NAN);
  }

  // The tensors; *shared (null: none wanted): what was read in place.
  TensorValues Pull(uint64_t round, std::shared_ptr<const TensorValues>* shared, bool read_only = false) {
    const std::vector<uint32_t> partitions = cluster_.PartitionsOf(0);
    PullRequest request;
    request.header = cluster_.Header(lane_ + 1);
    request.partitions = partitions;
    request.logical_lane = lane_;
    request.round = request.batch = request.finished = round;
    request.read_only = read_only;
    request.share = shared != nullptr;
    const std::vector<float*> to = {own_[0].data(), own_[1].data()};
    PullReply reply;
    reply.tensors = to;
    absl::Status status = absl::UnknownError("parked");
    cluster_.server(0).Pull(&request, absl::Seconds(1), &reply, [&](absl::Status s) { status = s; });
    REQUIRE(status == absl::OkStatus());
    if (shared != nullptr) *shared = reply.shared;
    return reply.shared != nullptr ? *reply.shared : own_;
  }
  // Also checks that what a lane elsewhere gets is the same.
  void CheckFlat(uint64_t round, const TensorValues& expected) {
    const std::vector<uint32_t> partitions = cluster_.PartitionsOf(0);
    std::vector<float> flat(kSizes[0] + kSizes[1]);
    PullRequest request;
    request.header = cluster_.Header(0);
    request.partitions = partitions;
    request.round = round;
    request.read_only = true;
    PullReply reply;
    reply.dense = flat.data();
    cluster_.server(0).Pull(&request, absl::Seconds(1), &reply, [](absl::Status s) { REQUIRE(s.ok()); });
    const float* next = flat.data();
    for (uint32_t p : partitions) {
      for (const DenseBlock& block : layout_.BlocksOf(p)) {
        REQUIRE(std::equal(next, next + block.size, expected[block.tensor].data() + block.offset));
        next += block.size;
      }
    }
  }
  void Push(uint64_t round, bool whole_tensors) {
    const TensorValues gradients = Gradients(lane_, round);
    const std::vector<const float*> tensors = {gradients[0].data(), gradients[1].data()};
    const std::vector<uint32_t> partitions = cluster_.PartitionsOf(0);
    std::vector<float> flat;
    for (uint32_t p : partitions) {
      for (const DenseBlock& block : layout_.BlocksOf(p)) {
        const float* from = gradients[block.tensor].data() + block.offset;
        flat.insert(flat.end(), from, from + block.size);
      }
    }
    PushRequest request;
    request.header = cluster_.Header(lane_ + 1);
    request.split = lane_;
    request.lease = lane_ + 1;
    request.begin = 4 * round;
    request.end = 4 * round + 4;
    request.examples = 3;
    request.logical_lane = lane_;
    request.round = round;
    request.partitions = partitions;
    if (whole_tensors) {
      request.tensors = tensors;
    } else {
      request.dense = flat;
    }
    PushReply reply;
    cluster_.server(0).Push(&request, &reply, [](absl::Status s) { REQUIRE(s == absl::OkStatus()); });
    REQUIRE(reply.exceptions.empty());
  }

 private:
  TestCluster& cluster_;
  const DenseLayout layout_;
  const uint32_t lane_;
  TensorValues own_;
};

void PushRound(TestCluster* cluster, std::vector<DenseLane>* lanes, uint64_t round, bool whole_tensors) {
  for (DenseLane& lane : *lanes) lane.Push(round, whole_tensors);
  for (uint32_t lane = 0; lane < kLanes; ++lane) cluster->Mark(lane, round);
}

std::vector<DenseLane> Lanes(TestCluster* cluster, const JobConfig& config) {
  std::vector<DenseLane> out;
  for (uint32_t lane = 0; lane < kLanes; ++lane) out.emplace_back(cluster, config, lane);
  return out;
}

TEST_CASE("Tensors pass whole between lanes and a server of one process: the same bits as blocks", "[server][unit]") {
  for (const JobConfig& config : {WithTensors(TestCluster::DefaultConfig()), WithTensors(BspConfig(kLanes))}) {
    TestCluster whole(config, 1), blocks(config, 1);
    std::vector<DenseLane> a = Lanes(&whole, config), b = Lanes(&blocks, config);
    for (uint64_t round = 0; round < 3; ++round) {
      const TensorValues values = a[0].Pull(round, nullptr);
      b[0].CheckFlat(round, values);
      PushRound(&whole, &a, round, true);
      PushRound(&blocks, &b, round, false);
      CHECK(a[1].Pull(round + 1, nullptr) != values);
    }
    CHECK(whole.Digest() == blocks.Digest());
  }
}

TEST_CASE("bsp: lanes of the server's process read the tensors where it keeps them", "[server][unit]") {
  const JobConfig config = WithTensors(BspConfig(kLanes));
  TestCluster shares(config, 1), copies(config, 1);
  std::vector<DenseLane> a = Lanes(&shares, config), b = Lanes(&copies, config);
  std::shared_ptr<const TensorValues> first, second;
  const float* place = nullptr;
  for (uint64_t round = 0; round < 3; ++round) {
    const TensorValues values = a[0].Pull(round, &first);
    REQUIRE(first != nullptr);
    a[1].Pull(round, &second);
    CHECK((*second)[0].data() == (*first)[0].data());
    if (place != nullptr) CHECK((*first)[0].data() == place);  // stepped in place, round after round
    place = (*first)[0].data();
    CHECK(b[0].Pull(round, nullptr) == values);
    a[0].CheckFlat(round, values);
    first = second = nullptr;
    PushRound(&shares, &a, round, true);
    PushRound(&copies, &b, round, true);
  }
  CHECK(shares.Digest() == copies.Digest());
}

TEST_CASE("bsp: the tensors that a late lane still reads do not change under it", "[server][unit]") {
  const JobConfig config = WithTensors(BspConfig(kLanes));
  TestCluster cluster(config, 1), expected(config, 1);
  std::vector<DenseLane> lanes = Lanes(&cluster, config), others = Lanes(&expected, config);
  std::shared_ptr<const TensorValues> late, now;
  const TensorValues before = lanes[0].Pull(0, &late);
  if (GENERATE(false, true)) {  // also when a newer map has come meanwhile
    for (TestCluster* each : {&cluster, &expected}) {
      each->view().set_map_version(2);
      each->Publish();
    }
  }
  PushRound(&cluster, &lanes, 0, true);
  PushRound(&expected, &others, 0, true);
  CHECK(*late == before);
  const TensorValues after = lanes[1].Pull(1, &now);
  CHECK((*now)[0].data() != (*late)[0].data());
  CHECK(after != before);
  CHECK(after == others[1].Pull(1, nullptr));
  // Its memory outlives the job.
  cluster.server(0).DropJob(1);
  CHECK(*late == before);
  CHECK(*now == after);
}

TEST_CASE("Tensors are copied where they may change while they are read, or are not all here", "[server][unit]") {
  std::shared_ptr<const TensorValues> shared;
  SECTION("asp") {
    const JobConfig config = WithTensors(TestCluster::DefaultConfig());
    TestCluster cluster(config, 1);
    DenseLane lane(&cluster, config, 0);
    lane.CheckFlat(0, lane.Pull(0, &shared));
    CHECK(shared == nullptr);
  }
  SECTION("read-only, which no gate holds back") {
    const JobConfig config = WithTensors(BspConfig(kLanes));
    TestCluster cluster(config, 1);
    DenseLane lane(&cluster, config, 0);
    lane.CheckFlat(0, lane.Pull(0, &shared, /*read_only=*/true));
    CHECK(shared == nullptr);
  }
  SECTION("two servers, then all partitions come to the first, leave, and come back") {
    const JobConfig config = WithTensors(BspConfig(kLanes));
    TestCluster cluster(config, 2), one(config, 1);
    std::vector<DenseLane> lanes = Lanes(&cluster, config), expected = Lanes(&one, config);
    const std::vector<uint32_t> some = cluster.PartitionsOf(1);
    uint64_t task = 5, round = 0;
    const auto move = [&](int from, int to) {
      cluster.Publish(from, {task});
      REQUIRE(cluster.Copy(Task::MOVE_PARTITIONS, task++, from, some, to) == absl::OkStatus());
      cluster.Give(some, to);
      cluster.Publish();
    };
    for (int visit = 0; visit < 2; ++visit) {
      lanes[0].Pull(round, &shared);
      CHECK(shared == nullptr);
      move(1, 0);
      for (int i = 0; i < 2; ++i, ++round) {
        CHECK(lanes[0].Pull(round, &shared) == expected[0].Pull(round, nullptr));
        CHECK(shared != nullptr);
        shared = nullptr;
        PushRound(&cluster, &lanes, round, true);
        PushRound(&one, &expected, round, true);
      }
      move(0, 1);
    }
  }
}

TEST_CASE("Whole tensors that do not fit the job are refused by name", "[server][unit]") {
  const JobConfig config = WithTensors(TestCluster::DefaultConfig());
  TestCluster cluster(config, 1);
  const std::vector<uint32_t> partitions = cluster.PartitionsOf(0);
  std::vector<float> values(kSizes[0]);
  absl::Status status;
  const auto pull = [&](const std::vector<float*>& tensors, uint64_t dense_count) {
    PullRequest request;
    request.header = cluster.Header(1);
    request.partitions = partitions;
    request.dense_count = dense_count;
    PullReply reply;
    reply.tensors = tensors;
    cluster.server(0).Pull(&request, absl::Seconds(1), &reply, [&](absl::Status s) { status = s; });
    return std::string(status.message());
  };
  CHECK(pull({values.data()}, 0) == "reply.tensors: 1 tensors, must be 2");
  CHECK(pull({values.data(), nullptr}, 0) == "reply.tensors[1]: null");
  CHECK(pull({values.data(), values.data()}, 5) == "dense_begin, dense_count: 0 and 5, must be 0 for whole tensors");
  const auto push = [&](const std::vector<const float*>& tensors, absl::Span<const float> dense) {
    PushRequest request;
    request.header = cluster.Header(1);
    request.lease = 1;
    request.end = request.examples = 1;
    request.partitions = partitions;
    request.tensors = tensors;
    request.dense = dense;
    PushReply reply;
    cluster.server(0).Push(&request, &reply, [&](absl::Status s) { status = s; });
    return std::string(status.message());
  };
  CHECK(push({values.data()}, {}) == "tensors: 1 tensors, must be 2");
  CHECK(push({nullptr, values.data()}, {}) == "tensors[0]: null");
  CHECK(push({values.data(), values.data()}, values) == "dense: 40000 floats, must be 0 beside whole tensors");
}

TEST_CASE("bsp: rounds that several threads apply give the same bits", "[server][unit]") {
  constexpr uint64_t kKeys = 300;
  JobConfig config = BspConfig(kLanes);
  const bool limited = GENERATE(false, true);  // partitions that come first get the rows
  if (limited) config.mutable_job()->mutable_memory()->set_soft_limit(100000);
  const auto run = [&](uint32_t threads) {
    TestCluster cluster(config, 1, "", 1, nullptr, threads);
    for (uint64_t round = 0; round < 4; ++round) {
      for (uint32_t lane = 0; lane < kLanes; ++lane) {
        TestBatch batch = BspContribution(lane, round, kKeys);
        batch.rows[7] = {NAN, 0};  // refused, once, whoever meets it
        cluster.Push(batch);
      }
      for (uint32_t lane = 0; lane < kLanes; ++lane) cluster.Mark(lane, round);
    }
    const ServerJobReport report = cluster.server(0).Report(1);
    CHECK((report.memory_refused() > 0) == limited);
    if (!limited) CHECK(report.guard_refused() == 4);
    if (!limited) CHECK(report.refused_batches() == 4 * kLanes);
    return cluster.Digest();
  };
  const auto expected = run(1);
  CHECK(expected.at("t").second > (limited ? 20 : 200));
  CHECK(run(2) == expected);
  CHECK(run(5) == expected);
}

}  // namespace
}  // namespace shoal
