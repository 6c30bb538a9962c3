// Rows of odd dimensions in batches from one key to very many, across a real connection: nothing is made for one shape.
#include <catch2/catch.hpp>
#include <functional>
#include <memory>
#include <vector>

#include "absl/synchronization/notification.h"
#include "base/hash.h"
#include "proto/wire/dense_layout.h"
#include "server/parameter_server.h"
#include "server/rpc/parameter_service.h"
#include "worker/client/grpc_parameter_client.h"

namespace shoal {
namespace {

constexpr uint64_t kJob = 5, kSelf = 9;
constexpr absl::Duration kTimeout = absl::Seconds(120);

// Waits for a call and returns its status.
absl::Status Await(const std::function<void(ParameterClient::Done)>& start) {
  absl::Notification done;
  absl::Status result;
  start([&](absl::Status status) {
    result = std::move(status);
    done.Notify();
  });
  if (!done.WaitForNotificationWithTimeout(2 * kTimeout)) return absl::InternalError("never answered");
  return result;
}

// A server with one table per dimension and a tensor, all sums of what is pushed (sgd with rate -1), and a client.
class Rig {
 public:
  struct Options {
    uint64_t tensor = 0;  // floats
    bool bsp = false;     // one lane
    ValueType type = ValueType::kF32;
    MessageLimits limits;
  };

  Rig(const std::vector<uint32_t>& dims, uint32_t partitions) : Rig(dims, partitions, Options()) {}
  Rig(const std::vector<uint32_t>& dims, uint32_t partitions, const Options& options)
      : dims_(dims), partitions_(partitions), bsp_(options.bsp), type_(options.type), tensor_(options.tensor) {
    JobConfig config;
    Job* job = config.mutable_job();
    job->set_partitions(partitions);
    job->mutable_optimizer()->mutable_sparse()->mutable_sgd()->set_learning_rate(-1);
    job->mutable_optimizer()->mutable_dense()->mutable_sgd()->set_learning_rate(-1);
    job->mutable_batch()->set_reduce(BatchConfig::SUM);
    if (options.bsp) {
      job->mutable_sync()->mutable_bsp()->set_lanes(1);
    } else {
      job->mutable_sync()->mutable_asp();
    }
    job->mutable_guard()->set_off(true);
    job->mutable_data()->set_passes(1);
    config.mutable_plan()->mutable_train()->add_splits();
    JobView view;
    view.set_job(kJob);
    view.set_run(1);
    view.set_state(RUNNING);
    view.set_map_version(1);
    view.add_servers()->set_process(kSelf);
    for (uint32_t p = 0; p < partitions; ++p) view.add_owner(0);
    view.set_live_version(1);
    view.set_next_lane(2);
    view.add_lanes()->set_lane(1);
    for (uint32_t dim : dims) {
      tables_.push_back(static_cast<uint32_t>(tables_.size()));
      TableSpec* table = config.mutable_plan()->mutable_model()->add_tables();
      table->set_name("dim" + std::to_string(dim));
      table->set_dim(dim);
    }
    if (tensor_ > 0) {
      TensorSpec* tensor = config.mutable_plan()->mutable_model()->add_tensors();
      tensor->set_name("w");
      tensor->add_shape(tensor_);
    }
    layout_ = DenseLayout::Create(config.plan().model(), partitions).value();
    for (uint32_t p = 0; p < partitions; ++p) dense_sizes_.push_back(layout_.FloatsOf(p));
    REQUIRE(server_.PrepareJob(config, view, kSelf, "").ok());
    server_.UpdateView(view);
    grpc_ = ParameterGrpcServer::Start(&server_, {}).value();
    client_ = GrpcParameterClient::Create(grpc_->address(), options.limits).value();
    OpenSplitRequest open;
    open.header = kHeader;
    open.lease = 1;
    OpenSplitReply reply;
    const absl::Status status = Await([&](auto done) { client_->OpenSplit(&open, kTimeout, &reply, std::move(done)); });
    REQUIRE(status == absl::OkStatus());
  }

  // Pushes a gradient of every table for `n` keys twice and reads the sums back.
  void PushTwiceAndPull(uint64_t n) {
    const std::vector<uint64_t> keys = Keys(n);
    std::vector<std::vector<float>> gradients, rows;
    for (uint32_t dim : dims_) {
      gradients.emplace_back(n * dim);
      rows.emplace_back(n * dim, -1.0f);
      // Small whole numbers: their sums are exact, also with the 8 bits of a bf16.
      const size_t below = type_ == ValueType::kF32 ? 1009 : 127;
      for (size_t i = 0; i < gradients.back().size(); ++i) gradients.back()[i] = static_cast<float>((n + i) % below);
    }
    std::vector<float> dense_gradient(tensor_), dense(tensor_, -1.0f);
    for (size_t i = 0; i < tensor_; ++i) dense_gradient[i] = static_cast<float>((n + i) % 1013);
    PushGroup group;
    group.keys = keys;
    group.counts = counts_;
    group.tables = tables_;
    group.dims = dims_;
    for (const std::vector<float>& values : gradients) group.gradients.push_back(values.data());
    for (int i = 0; i < 2; ++i) {
      PushRequest push;
      push.header = kHeader;
      push.lease = 1;
      push.begin = records_;
      push.end = ++records_;
      push.examples = 1;
      push.partitions = all_;
      push.groups = {group};
      push.value_type = type_;
      push.dense = dense_gradient;
      push.dense_sizes = dense_sizes_;
      push.whole = bsp_;
      push.round = round_;
      PushReply reply;
      const absl::Status status = Await([&](auto done) { client_->Push(&push, kTimeout, &reply, std::move(done)); });
      REQUIRE(status == absl::OkStatus());
      REQUIRE(reply.exceptions.empty());
      if (!bsp_) CHECK(reply.pushes_applied == pushes_);
      ++pushes_;
      if (bsp_) Mark();
    }
    PullRequest pull;
    pull.header = kHeader;
    pull.partitions = all_;
    pull.round = round_;
    pull.value_type = type_;
    pull.dense = tensor_ > 0;
    pull.groups = {{keys, counts_, tables_, dims_}};
    PullReply reply;
    reply.rows.emplace_back();
    for (std::vector<float>& values : rows) reply.rows[0].push_back(values.data());
    reply.dense = dense.data();
    reply.dense_floats = dense.size();
    const absl::Status status = Await([&](auto done) { client_->Pull(&pull, kTimeout, &reply, std::move(done)); });
    REQUIRE(status == absl::OkStatus());
    CHECK(server_.StagedBytes() == 0);
    CheckDense(dense_gradient, dense);
    for (size_t t = 0; t < dims_.size(); ++t) {
      uint64_t wrong = 0;
      for (size_t i = 0; i < rows[t].size(); ++i) wrong += rows[t][i] != 2 * gradients[t][i];
      INFO("dim " << dims_[t]);
      CHECK(wrong == 0);
    }
  }

 private:
  // Ends the round of the only lane.
  void Mark() {
    MarkRequest mark;
    mark.header = kHeader;
    mark.round = round_++;
    MarkReply reply;
    const absl::Status status = Await([&](auto done) { client_->Mark(&mark, kTimeout, &reply, std::move(done)); });
    REQUIRE(status == absl::OkStatus());
  }

  // What two pushes of `gradient` add to the tensor.
  void CheckDense(const std::vector<float>& gradient, const std::vector<float>& found) {
    dense_sum_.resize(gradient.size());
    uint64_t wrong = 0;
    for (size_t i = 0; i < gradient.size(); ++i) {
      dense_sum_[i] += 2 * gradient[i];
      wrong += found[i] != dense_sum_[i];
    }
    CHECK(wrong == 0);
  }

  static constexpr RequestHeader kHeader = {kJob, 1, 1, 1};

  // New ones with each call, grouped by partition; fills in counts_ and all_.
  std::vector<uint64_t> Keys(uint64_t n) {
    std::vector<std::vector<uint64_t>> by_partition(partitions_);
    for (uint64_t i = 0; i < n; ++i) {
      const uint64_t key = Mix64(++next_key_);
      by_partition[PartitionOfKey(key, partitions_)].push_back(key);
    }
    all_.clear();
    counts_.clear();
    std::vector<uint64_t> keys;
    for (uint32_t p = 0; p < partitions_; ++p) {
      all_.push_back(p);
      counts_.push_back(static_cast<uint32_t>(by_partition[p].size()));
      keys.insert(keys.end(), by_partition[p].begin(), by_partition[p].end());
    }
    return keys;
  }

  const std::vector<uint32_t> dims_;
  const uint32_t partitions_;
  const bool bsp_;
  const ValueType type_;
  const uint64_t tensor_;
  DenseLayout layout_;
  std::vector<uint64_t> dense_sizes_;
  std::vector<float> dense_sum_;
  uint64_t round_ = 0, pushes_ = 0;
  std::vector<uint32_t> tables_, counts_, all_;
  uint64_t next_key_ = 0, records_ = 0;
  ParameterServer server_{ParameterServerOptions()};
  std::unique_ptr<ParameterGrpcServer> grpc_;
  std::unique_ptr<GrpcParameterClient> client_;
};

TEST_CASE("Data plane: odd dimensions, from no key to 65,536", "[rpc]") {
  for (const uint32_t partitions : {1u, 7u, 256u}) {
    Rig rig({1, 3, 17, 40}, partitions);
    for (const uint64_t keys : {1, 0, 2, 8, 31, 32, 33, 1000, 65536}) {
      INFO(partitions << " partitions, " << keys << " keys");
      rig.PushTwiceAndPull(keys);
    }
  }
}

TEST_CASE("Data plane: values as halves, odd dimensions, one key to many, cut and staged", "[rpc]") {
  for (const ValueType type : {ValueType::kBf16, ValueType::kF16}) {
    for (const uint32_t partitions : {1u, 7u}) {
      for (const uint64_t part_bytes : {1000, 1 << 20}) {
        Rig::Options options;
        options.type = type;
        options.bsp = partitions == 1;
        options.limits.part_bytes = part_bytes;
        options.limits.whole_push_bytes = part_bytes;
        Rig rig({1, 3, 17, 40}, partitions, options);
        for (const uint64_t keys : {0, 1, 33, 500}) {
          INFO(partitions << " partitions, " << part_bytes << " bytes, " << keys << " keys");
          rig.PushTwiceAndPull(keys);
        }
      }
    }
  }
}

TEST_CASE("Data plane: messages of any size carry the same, also where one partition takes several", "[rpc]") {
  const bool bsp = GENERATE(false, true);
  for (const uint32_t partitions : {1u, 7u}) {
    for (const uint64_t part_bytes : {250, 5000, 100000}) {
      Rig::Options options;
      options.tensor = 20'001;
      options.bsp = bsp;
      options.limits.part_bytes = part_bytes;
      options.limits.whole_push_bytes = 4 * part_bytes;
      Rig rig({1, 3, 17, 40}, partitions, options);
      for (const uint64_t keys : {0, 1, 40, 501}) {
        INFO((bsp ? "bsp, " : "asp, ") << partitions << " partitions, " << part_bytes << " bytes, " << keys << " keys");
        rig.PushTwiceAndPull(keys);
      }
    }
  }
}

TEST_CASE("Data plane: a tensor of 40 MB", "[rpc]") {
  const bool bsp = GENERATE(false, true);
  const uint32_t partitions = GENERATE(2, 64);  // 20 MB of it in a partition: more than a message may have
  Rig::Options options;
  options.tensor = 10'000'000;
  options.bsp = bsp;
  Rig rig({3}, partitions, options);
  rig.PushTwiceAndPull(11);
}

// tests/large runs these: several GB of memory, minutes.
TEST_CASE("Data plane: a tensor of 300 MB", "[rpc][large][.]") {
  Rig::Options options;
  options.tensor = 75'000'000;
  options.bsp = GENERATE(false, true);
  Rig rig({3}, 256, options);
  rig.PushTwiceAndPull(11);
}

TEST_CASE("Data plane: ten million keys in one batch", "[rpc][large][.]") {
  Rig::Options options;
  options.bsp = GENERATE(false, true);
  Rig rig({1}, 64, options);
  rig.PushTwiceAndPull(10'000'000);
}

TEST_CASE("Data plane: a batch that needs more than the old limit of a message", "[rpc][large][.]") {
  Rig rig({40}, 64);
  rig.PushTwiceAndPull(2'000'000);
}

}  // namespace
}  // namespace shoal
