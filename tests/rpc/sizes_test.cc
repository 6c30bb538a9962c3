// Rows of odd dimensions in batches from one key to very many, across a real connection: nothing is made for one shape.
#include <catch2/catch.hpp>
#include <functional>
#include <memory>
#include <vector>

#include "absl/synchronization/notification.h"
#include "base/hash.h"
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

// A server with one table per dimension, whose rows are the sums of what is pushed (sgd with rate -1), and a client.
class Rig {
 public:
  Rig(const std::vector<uint32_t>& dims, uint32_t partitions) : dims_(dims), partitions_(partitions) {
    JobConfig config;
    Job* job = config.mutable_job();
    job->set_partitions(partitions);
    job->mutable_optimizer()->mutable_sparse()->mutable_sgd()->set_learning_rate(-1);
    job->mutable_batch()->set_reduce(BatchConfig::SUM);
    job->mutable_sync()->mutable_asp();
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
    REQUIRE(server_.PrepareJob(config, view, kSelf, "").ok());
    server_.UpdateView(view);
    grpc_ = ParameterGrpcServer::Start(&server_, {}).value();
    client_ = GrpcParameterClient::Create(grpc_->address()).value();
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
      // Small whole numbers: their sums are exact.
      for (size_t i = 0; i < gradients.back().size(); ++i) gradients.back()[i] = static_cast<float>((n + i) % 1009);
    }
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
      PushReply reply;
      const absl::Status status = Await([&](auto done) { client_->Push(&push, kTimeout, &reply, std::move(done)); });
      REQUIRE(status == absl::OkStatus());
      REQUIRE(reply.exceptions.empty());
    }
    PullRequest pull;
    pull.header = kHeader;
    pull.partitions = all_;
    pull.dense = false;
    pull.groups = {{keys, counts_, tables_, dims_}};
    PullReply reply;
    reply.rows.emplace_back();
    for (std::vector<float>& values : rows) reply.rows[0].push_back(values.data());
    const absl::Status status = Await([&](auto done) { client_->Pull(&pull, kTimeout, &reply, std::move(done)); });
    REQUIRE(status == absl::OkStatus());
    for (size_t t = 0; t < dims_.size(); ++t) {
      uint64_t wrong = 0;
      for (size_t i = 0; i < rows[t].size(); ++i) wrong += rows[t][i] != 2 * gradients[t][i];
      INFO("dim " << dims_[t]);
      CHECK(wrong == 0);
    }
  }

 private:
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

// About 1 GB of memory and 20 seconds: sizes_test "[large]".
TEST_CASE("Data plane: ten million keys in one batch", "[rpc][large][.]") { Rig({1}, 64).PushTwiceAndPull(10'000'000); }

}  // namespace
}  // namespace shoal
