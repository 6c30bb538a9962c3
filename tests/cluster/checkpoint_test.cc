// A checkpoint belongs to no number of servers: what two wrote, one and three load, and predict the same to the bit.
#include "server/checkpoint/checkpoint.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <map>

#include "local/local_clients.h"
#include "local/local_cluster.h"
#include "local/run_job.h"
#include "server/parameter_server.h"
#include "tests/testing/test_jobs.h"
#include "worker/train/batch_step.h"
#include "worker/train/job_context.h"

namespace shoal {
namespace {

constexpr uint64_t kJob = 1, kRun = 1;

// Trains on two servers; returns the directory of the final checkpoint.
std::string TrainOnTwoServers(const Job& job) {
  LocalClusterOptions options;
  options.servers = 2;
  options.workers = 2;
  auto cluster = LocalCluster::Start(options);
  REQUIRE(cluster.ok());
  const absl::StatusOr<JobStatus> status = RunJob((*cluster)->scheduler(), job, {});
  REQUIRE(status.ok());
  INFO(Describe(*status));
  REQUIRE(status->state() == SUCCEEDED);
  return status->checkpoint();
}

// The predictions for the evaluation rows, in order, with the checkpoint loaded by `count` servers.
std::vector<float> Predict(const std::string& checkpoint, size_t count) {
  std::string dir;
  const absl::StatusOr<Manifest> manifest = ReadManifest(checkpoint, &dir);
  REQUIRE(manifest.ok());
  REQUIRE(manifest->parts_size() == 2);
  JobConfig config;
  *config.mutable_job() = manifest->job();
  *config.mutable_plan() = manifest->plan();
  JobView view;
  view.set_job(kJob);
  view.set_run(kRun);
  view.set_state(RUNNING);
  view.set_map_version(1);
  view.set_live_version(1);
  view.set_next_lane(1);
  for (uint32_t p = 0; p < config.job().partitions(); ++p) view.add_owner(p % static_cast<uint32_t>(count));
  std::map<uint64_t, std::shared_ptr<ParameterServer>> servers;  // by process
  for (uint64_t process = 1; process <= count; ++process) {
    view.add_servers()->set_process(process);
    servers[process] = std::make_shared<ParameterServer>(ParameterServerOptions{"server", &Clock::Steady()});
  }
  for (const auto& [process, server] : servers) {
    const absl::Status prepared = server->PrepareJob(config, view, process, dir);
    INFO(prepared.ToString());
    REQUIRE(prepared.ok());
    REQUIRE(server->Report(kJob).rows() > 0);
  }
  auto context = JobContext::Create(kJob, config, [&](const ServerAddress& address) {
    return NewLocalParameterClient(servers.at(address.process()));
  });
  REQUIRE(context.ok());
  REQUIRE((*context)->UpdateView(view).ok());
  RetryPolicy policy;
  policy.clock = &Clock::Steady();
  policy.request_timeout = policy.retry_limit = policy.reach_limit = absl::Seconds(10);
  policy.keep_going = [] { return true; };
  BatchStep step(context->get(), policy, nullptr);
  const std::unique_ptr<ModelWorkspace> workspace = (*context)->model().NewWorkspace();
  absl::StatusOr<DataSet*> data = (*context)->EvalData();
  REQUIRE(data.ok());
  std::vector<float> predictions;
  for (int split = 0; split < config.plan().eval().splits_size(); ++split) {
    absl::StatusOr<std::unique_ptr<SplitReader>> reader = (*data)->OpenSplit(0, static_cast<uint64_t>(split), 0);
    REQUIRE(reader.ok());
    do {
      REQUIRE((*reader)->Next(100, &step.batch()).ok());
      PullRequest pull;
      pull.header.run = kRun;
      pull.read_only = true;
      step.StartPull((*context)->routes(), pull);
      const absl::StatusOr<RequestOutcome> pulled = step.AwaitPull();
      REQUIRE(pulled.ok());
      REQUIRE(*pulled == RequestOutcome::kOk);
      const absl::StatusOr<StepResult> result = step.Compute(/*training=*/false, workspace.get());
      REQUIRE(result.ok());
      predictions.insert(predictions.end(), result->predictions.begin(), result->predictions.end());
    } while (!step.batch().end_of_split);
  }
  return predictions;
}

TEST_CASE("Checkpoint: written by two servers, loaded by one and by three, it predicts the same to the bit",
          "[cluster]") {
  const std::string optimizer = GENERATE("rowwise_adagrad", "adam");
  TempDir dir;
  const Job job = TestJob(
      "name: deepfm\n"
      "data: {format: {synthetic: {rows: 20000, eval_rows: 3000, categories: 8, ids_per_category: 500}}}\n"
      "model: {preset: deepfm, embedding_dim: 4, hidden: [16]}\n"
      "optimizer: {sparse: {" +
          optimizer +
          ": 0.05}, dense: {adam: 0.001}}\n"
          "batch: {size: 128}\n"
          "partitions: 32\n"
          "checkpoint: {dir: ckpt}\n",
      dir.path());
  const std::string checkpoint = TrainOnTwoServers(job);
  const std::vector<float> two = Predict(checkpoint, 2);
  REQUIRE(two.size() == 3000);
  REQUIRE(*std::max_element(two.begin(), two.end()) > *std::min_element(two.begin(), two.end()) + 0.1f);
  for (size_t servers : {1, 3}) {
    const std::vector<float> others = Predict(checkpoint, servers);
    REQUIRE(others.size() == two.size());
    REQUIRE(std::memcmp(others.data(), two.data(), two.size() * sizeof(float)) == 0);
  }
}

}  // namespace
}  // namespace shoal
