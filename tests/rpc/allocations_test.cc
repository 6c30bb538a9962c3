// Once the shapes of the batches were seen, a step of pull, compute and push takes no large block from malloc: not at
// the worker, not at the servers, not for the messages between them. What gRPC takes for itself, above all for the
// bytes that it receives, is told apart by the stack (tests/testing/count_blocks.h).
#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <vector>

#include "base/buffer_pool.h"
#include "local/local_clients.h"
#include "server/parameter_server.h"
#include "server/rpc/parameter_service.h"
#include "tests/testing/count_blocks.h"
#include "worker/client/grpc_parameter_client.h"
#include "worker/train/batch_step.h"
#include "worker/train/worker_tasks.h"

namespace shoal {
namespace {

constexpr uint64_t kJob = 7, kLane = 1;
constexpr int kServers = 2;
// Many, so that a list by partition is a large block, too.
constexpr uint32_t kPartitions = 3000;

struct Shape {
  bool bsp = false;
  Wire::Format wire = Wire::F32;
  uint32_t min_count = 1;  // admission
};

JobConfig Config(const Shape& shape) {
  JobConfig config;
  Job& job = *config.mutable_job();
  CriteoFormat::Integers integers = CriteoFormat::DENSE;
  auto& data = *job.mutable_data()->mutable_format()->mutable_synthetic();
  data.set_rows(5000);
  data.set_categories(20);
  data.set_ids_per_category(10000);
  data.set_integers(4);
  data.set_integer_features(integers);
  job.mutable_model()->set_preset(Model::DEEPFM);
  job.mutable_model()->set_embedding_dim(16);
  job.mutable_model()->add_hidden(64);
  if (shape.bsp) {
    job.mutable_sync()->mutable_bsp()->set_lanes(1);
  } else {
    job.mutable_sync()->mutable_asp();
  }
  job.set_partitions(kPartitions);
  job.mutable_wire()->set_pull(shape.wire);
  job.mutable_wire()->set_push(shape.wire);
  job.mutable_admission()->set_min_count(shape.min_count);
  *config.mutable_plan() = PlanJob(job).value();
  return config;
}

JobView View() {
  JobView view;
  view.set_job(kJob);
  view.set_run(1);
  view.set_state(RUNNING);
  view.set_map_version(1);
  for (int s = 0; s < kServers; ++s) view.add_servers()->set_process(static_cast<uint64_t>(s) + 1);
  for (uint32_t p = 0; p < kPartitions; ++p) view.add_owner(p % kServers);
  view.set_live_version(1);
  view.set_next_lane(kLane + 1);
  view.add_lanes()->set_lane(kLane);
  return view;
}

// Servers, perhaps behind gRPC, and one lane that trains two batches of different sizes in turn.
class Rig {
 public:
  Rig(const Shape& shape, bool grpc, const MessageLimits& limits = {})
      : bsp_(shape.bsp), buffers_(BufferPool::Create(kIdleBufferBytes)) {
    const JobConfig config = Config(shape);
    JobView view = View();
    for (int s = 0; s < kServers; ++s) {
      servers_.push_back(std::make_shared<ParameterServer>(ParameterServerOptions()));
      REQUIRE(servers_.back()->PrepareJob(config, view, static_cast<uint64_t>(s) + 1, "") == absl::OkStatus());
      servers_.back()->UpdateView(view);
      if (!grpc) continue;
      grpc_.push_back(ParameterGrpcServer::Start(servers_.back().get(), {}).value());
      view.mutable_servers(s)->set_address(grpc_.back()->address());
    }
    context_ = JobContext::Create(kJob, config, [=](const ServerAddress& server) {
                 return Connect(server, grpc, limits);
               }).value();
    REQUIRE(context_->UpdateView(view).ok());
    workspace_ = context_->model().NewWorkspace();
    RetryPolicy policy;
    policy.clock = &Clock::Steady();
    policy.request_timeout = policy.retry_limit = policy.reach_limit = absl::Seconds(60);
    policy.keep_going = [] { return true; };
    for (uint64_t rows : {1500, 1200}) {
      steps_.push_back(std::make_unique<BatchStep>(context_.get(), policy, nullptr));
      REQUIRE(context_->train_data().OpenSplit(0, 0, 0).value()->Next(rows, &steps_.back()->batch()).ok());
      REQUIRE(steps_.back()->batch().rows > 0);
    }
  }
  ~Rig() {
    steps_.clear();
    context_.reset();
  }

  // The next round of a batch. Its push says other records than the batch has: nobody compares them.
  void Step() {
    BatchStep& step = *steps_[round_ % steps_.size()];
    PullRequest pull;
    pull.header.run = 1;
    pull.header.lane = kLane;
    pull.batch = pull.finished = pull.round = round_;
    pull.has_mark = bsp_ && round_ > 0;
    step.StartPull(context_->routes(), pull);
    ok_ = ok_ && step.AwaitPull().value() == RequestOutcome::kOk;
    ok_ = ok_ && step.Compute(/*training=*/true, workspace_.get()).ok();
    PushRequest push;
    push.header.lane = kLane;
    push.lease = 1;
    push.begin = position_;
    push.end = position_ += step.batch().rows;
    push.examples = step.batch().rows;
    push.round = round_++;
    step.StartPush(push);
    AnswerCounts counts;
    ok_ = ok_ && step.AwaitPush(&counts).value() == PushEnd::kDone;
  }

  bool ok() const { return ok_; }
  const BufferPool& buffers() const { return *buffers_; }
  ParameterServer& server(size_t s) { return *servers_[s]; }
  uint64_t StagedBytes() const { return servers_[0]->StagedBytes(); }

 private:
  absl::StatusOr<std::unique_ptr<ParameterClient>> Connect(const ServerAddress& server, bool grpc,
                                                           const MessageLimits& limits) {
    if (!grpc) return NewLocalParameterClient(servers_[server.process() - 1]);
    return GrpcParameterClient::Create(server.address(), limits, buffers_);
  }

  const bool bsp_;
  const std::shared_ptr<BufferPool> buffers_;
  std::vector<std::shared_ptr<ParameterServer>> servers_;
  std::vector<std::unique_ptr<ParameterGrpcServer>> grpc_;
  std::shared_ptr<JobContext> context_;
  std::unique_ptr<ModelWorkspace> workspace_;
  std::vector<std::unique_ptr<BatchStep>> steps_;
  uint64_t round_ = 0, position_ = 0;
  bool ok_ = true;
};

BlockCounts CountSteps(Rig* rig, int steps) {
  StartCounting(CountedThreads::kAll);
  for (int i = 0; i < steps; ++i) rig->Step();
  return StopCounting();
}

// How many messages are under way at once, and so how many buffers there must be, is a matter of timing: gRPC drops a
// message when it is sent, which may be after its answer has come. So the steady state begins when it begins; but it
// must begin, which it never does for what each step, or each tenth, takes anew; and after ten clean steps there must
// be twenty in a row that are clean, too.
void CheckSteadyState(Rig* rig) {
  constexpr int kTries = 30;
  BlockCounts counts;
  for (int i = 0; i < 4; ++i) rig->Step();
  for (int steps : {10, 20}) {
    for (int i = 0; i < kTries; ++i) {
      counts = CountSteps(rig, steps);
      if (counts.ours == 0) break;
    }
    if (counts.ours != 0) break;
  }
  INFO(CountedStacks());
  CHECK(counts.ours == 0);
  CHECK(counts.grpc > 0);  // the messages are large: it is seen when somebody takes blocks
  CHECK(rig->ok());
  CHECK(rig->buffers().idle_bytes() > 0);
  CHECK(rig->buffers().idle_bytes() <= kIdleBufferBytes);
}

TEST_CASE("Large blocks of our own code are counted, whichever way they are taken", "[rpc]") {
  StartCounting(CountedThreads::kAll);
  std::vector<void*> blocks = {std::malloc(kLargeBlock), std::calloc(2, kLargeBlock / 2),
                               std::aligned_alloc(64, kLargeBlock), std::malloc(kLargeBlock - 1)};
  std::string text(kLargeBlock, 'x');
  void* const aligned = ::operator new (kLargeBlock, std::align_val_t{64});
  const BlockCounts counts = StopCounting();
  CHECK(counts.ours == 5);
  CHECK(counts.grpc == 0);
  for (void* block : blocks) std::free(block);
  ::operator delete (aligned, std::align_val_t{64});
}

TEST_CASE("A step over gRPC takes no large block in the steady state", "[rpc]") {
  const Shape shape = GENERATE(Shape{false, Wire::F32, 1}, Shape{false, Wire::BF16, 2}, Shape{true, Wire::F32, 1});
  INFO("bsp " << shape.bsp << ", " << Wire::Format_Name(shape.wire) << ", min_count " << shape.min_count);
  Rig rig(shape, /*grpc=*/true);
  CheckSteadyState(&rig);
}

TEST_CASE("A step whose messages are cut small, and its pushes staged, takes no large block in the steady state",
          "[rpc]") {
  MessageLimits limits;
  limits.part_bytes = 50000;
  limits.whole_push_bytes = 60000;
  const bool bsp = GENERATE(false, true);  // bsp: all partitions of a server are one push
  Rig rig({bsp, Wire::F32, 1}, /*grpc=*/true, limits);
  CheckSteadyState(&rig);
}

TEST_CASE("A step without a network takes no large block once both batches were seen", "[rpc]") {
  const Shape shape = GENERATE(Shape{false, Wire::F32, 1}, Shape{false, Wire::BF16, 2}, Shape{true, Wire::F32, 1});
  INFO("bsp " << shape.bsp << ", " << Wire::Format_Name(shape.wire) << ", min_count " << shape.min_count);
  Rig rig(shape, /*grpc=*/false);
  for (int i = 0; i < 6; ++i) rig.Step();
  const BlockCounts counts = CountSteps(&rig, 20);
  INFO(CountedStacks());
  CHECK(counts.ours == 0);
  CHECK(counts.grpc == 0);
  CHECK(rig.ok());
}

}  // namespace
}  // namespace shoal
