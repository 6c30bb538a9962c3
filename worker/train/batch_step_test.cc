// What becomes of values between a step and the servers.
#include "worker/train/batch_step.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>

#include "proto/wire/value_codec.h"
#include "worker/train/worker_tasks.h"

namespace shoal {
namespace {

constexpr uint32_t kPartitions = 8;

// What servers were asked and told. Used by one thread.
struct Traffic {
  ValueType pulled = ValueType::kF32, pushed = ValueType::kF32;
  ValueType rounded = ValueType::kF32;                               // how servers round what they send
  std::map<std::pair<uint32_t, uint64_t>, std::vector<float>> rows;  // by table and key
  std::vector<float> dense;                                          // of all pushes
  bool whole = false;
};

// A server whose rows and tensors hold values of many bits.
class Server : public ParameterClient {
 public:
  explicit Server(Traffic* traffic) : traffic_(*traffic) {}

  void Pull(const PullRequest* request, absl::Duration, PullReply* reply, Done done) override {
    traffic_.pulled = request->value_type;
    for (size_t g = 0; g < request->groups.size(); ++g) {
      const PullGroup& group = request->groups[g];
      for (size_t t = 0; t < group.tables.size(); ++t) {
        for (size_t i = 0; i < group.keys.size(); ++i) {
          for (uint32_t c = 0; c < group.dims[t]; ++c) {
            reply->rows[g][t][i * group.dims[t] + c] = Value(group.keys[i] % 1000003 + c);
          }
        }
      }
    }
    for (uint64_t i = 0; i < reply->dense_floats; ++i) reply->dense[i] = Value(i);
    done(absl::OkStatus());
  }

  void Push(const PushRequest* request, absl::Duration, PushReply*, Done done) override {
    traffic_.pushed = request->value_type;
    traffic_.whole = request->whole;
    uint64_t dense = 0;
    for (uint64_t size : request->dense_sizes) dense += size;
    CHECK(request->dense_sizes.size() == request->partitions.size());
    CHECK(dense == request->dense.size());
    for (const PushGroup& group : request->groups) {
      for (size_t t = 0; t < group.tables.size(); ++t) {
        for (size_t i = 0; i < group.keys.size(); ++i) {
          const float* const from = group.gradients[t] + i * group.dims[t];
          traffic_.rows[{group.tables[t], group.keys[i]}].assign(from, from + group.dims[t]);
        }
      }
    }
    traffic_.dense.insert(traffic_.dense.end(), request->dense.begin(), request->dense.end());
    done(absl::OkStatus());
  }

  void OpenSplit(const OpenSplitRequest*, absl::Duration, OpenSplitReply*, Done done) override {
    done(absl::OkStatus());
  }
  void Mark(const MarkRequest*, absl::Duration, MarkReply*, Done done) override { done(absl::OkStatus()); }

 private:
  float Value(uint64_t seed) const {
    float value = static_cast<float>(seed % 9973) * 1e-5f + 0.1f;
    RoundValues(traffic_.rounded, &value, 1);
    return value;
  }

  Traffic& traffic_;
};

// One batch of an fm with a linear layer over `servers` servers.
Traffic Train(Wire::Format pull, Wire::Format push, int servers, ValueType rounded, bool read_only = false) {
  Traffic traffic;
  traffic.rounded = rounded;
  JobConfig config;
  Job& job = *config.mutable_job();
  job.mutable_data()->mutable_format()->mutable_synthetic()->set_rows(100);
  job.mutable_data()->mutable_format()->mutable_synthetic()->set_categories(3);
  job.mutable_data()->mutable_format()->mutable_synthetic()->set_ids_per_category(10);
  job.mutable_data()->mutable_format()->mutable_synthetic()->set_integers(2);
  job.mutable_data()->mutable_format()->mutable_synthetic()->set_integer_features(CriteoFormat::DENSE);
  job.mutable_model()->set_preset(Model::DEEPFM);
  job.mutable_model()->set_embedding_dim(3);
  job.mutable_model()->add_hidden(5);
  job.mutable_sync()->mutable_bsp()->set_lanes(1);
  job.set_partitions(kPartitions);
  job.mutable_wire()->set_pull(pull);
  job.mutable_wire()->set_push(push);
  *config.mutable_plan() = PlanJob(job).value();
  const std::shared_ptr<JobContext> context =
      JobContext::Create(7, config, [&](const ServerAddress&) -> absl::StatusOr<std::unique_ptr<ParameterClient>> {
        return std::make_unique<Server>(&traffic);
      }).value();
  JobView view;
  view.set_job(7);
  view.set_run(1);
  view.set_map_version(1);
  for (int s = 0; s < servers; ++s) view.add_servers()->set_process(static_cast<uint64_t>(s) + 1);
  for (uint32_t p = 0; p < kPartitions; ++p) view.add_owner(p % static_cast<uint32_t>(servers));
  REQUIRE(context->UpdateView(view).ok());
  RetryPolicy policy;
  policy.clock = &Clock::Steady();
  policy.request_timeout = policy.retry_limit = policy.reach_limit = absl::Seconds(10);
  policy.keep_going = [] { return true; };
  BatchStep step(context.get(), policy, nullptr);
  REQUIRE(context->train_data().OpenSplit(0, 0, 0).value()->Next(40, &step.batch()).ok());
  PullRequest request;
  request.header.lane = 1;
  request.read_only = read_only;
  step.StartPull(context->routes(), request);
  REQUIRE(step.AwaitPull().value() == RequestOutcome::kOk);
  const std::unique_ptr<ModelWorkspace> workspace = context->model().NewWorkspace();
  REQUIRE(step.Compute(/*training=*/true, workspace.get()).ok());
  PushRequest prototype;
  prototype.header.lane = 1;
  prototype.end = prototype.examples = step.batch().rows;
  step.StartPush(prototype);
  AnswerCounts counts;
  REQUIRE(step.AwaitPush(&counts).value() == PushEnd::kDone);
  return traffic;
}

bool AllRounded(ValueType type, const Traffic& traffic) {
  const auto rounded = [type](std::vector<float> values) {
    const std::vector<float> before = values;
    RoundValues(type, values.data(), values.size());
    return values == before;
  };
  return rounded(traffic.dense) &&
         std::all_of(traffic.rows.begin(), traffic.rows.end(), [&](const auto& row) { return rounded(row.second); });
}

TEST_CASE("BatchStep: values are rounded as the wire would, whether or not there is one", "[worker][unit]") {
  const int servers = GENERATE(1, 3);
  const Traffic plain = Train(Wire::F32, Wire::F32, servers, ValueType::kF32);
  REQUIRE(plain.rows.size() > 10);
  CHECK((plain.pulled == ValueType::kF32 && plain.pushed == ValueType::kF32));
  CHECK_FALSE(AllRounded(ValueType::kF16, plain));
  CHECK(plain.whole);

  const Traffic halves = Train(Wire::BF16, Wire::F16, servers, ValueType::kF32);
  CHECK((halves.pulled == ValueType::kBf16 && halves.pushed == ValueType::kF16));
  CHECK(halves.rows.size() == plain.rows.size());
  CHECK(halves.rows != plain.rows);
  CHECK(AllRounded(ValueType::kF16, halves));

  // The same from servers that round already, as they do across a wire.
  const Traffic wired = Train(Wire::BF16, Wire::F16, servers, ValueType::kBf16);
  CHECK(wired.rows == halves.rows);
  CHECK(wired.dense == halves.dense);
  // Only one of the two directions.
  const Traffic pulled = Train(Wire::BF16, Wire::F32, servers, ValueType::kF32);
  CHECK_FALSE(AllRounded(ValueType::kF16, pulled));
  CHECK(pulled.rows != plain.rows);
  CHECK(Train(Wire::F32, Wire::F16, servers, ValueType::kF32).pulled == ValueType::kF32);
}

TEST_CASE("BatchStep: what is not for training is pulled as f32", "[worker][unit]") {
  const Traffic traffic = Train(Wire::BF16, Wire::F32, 2, ValueType::kF32, /*read_only=*/true);
  CHECK(traffic.pulled == ValueType::kF32);
  CHECK(traffic.rows == Train(Wire::F32, Wire::F32, 2, ValueType::kF32).rows);
}

}  // namespace
}  // namespace shoal
