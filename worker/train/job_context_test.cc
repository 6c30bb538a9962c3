// What a worker makes of a new map of a job.
#include "worker/train/job_context.h"

#include <catch2/catch.hpp>
#include <map>

#include "worker/train/worker_tasks.h"

namespace shoal {
namespace {

constexpr uint64_t kJob = 7;
constexpr uint32_t kPartitions = 8;

// A server that never answers; counts how often it was given up. Thread-safe enough for one thread.
class SilentClient : public ParameterClient {
 public:
  explicit SilentClient(int* aborted) : aborted_(*aborted) {}
  void OpenSplit(const OpenSplitRequest*, absl::Duration, OpenSplitReply*, Done) override {}
  void Pull(const PullRequest*, absl::Duration, PullReply*, Done) override {}
  void Push(const PushRequest*, absl::Duration, PushReply*, Done) override {}
  void Mark(const MarkRequest*, absl::Duration, MarkReply*, Done) override {}
  void Abort(Calls calls) override { aborted_ += calls == Calls::kAll ? 1 : 100; }

 private:
  int& aborted_;
};

struct Rig {
  std::map<uint64_t, int> connected, aborted;  // by server process
  std::shared_ptr<JobContext> context;

  Rig() {
    JobConfig config;
    Job& job = *config.mutable_job();
    job.mutable_data()->mutable_format()->mutable_synthetic()->set_rows(100);
    job.mutable_data()->mutable_format()->mutable_synthetic()->set_categories(2);
    job.mutable_data()->mutable_format()->mutable_synthetic()->set_ids_per_category(10);
    job.mutable_model()->set_preset(Model::LR);
    job.set_partitions(kPartitions);
    absl::StatusOr<JobPlan> plan = PlanJob(job);
    INFO(plan.status().ToString());
    REQUIRE(plan.ok());
    *config.mutable_plan() = *plan;
    absl::StatusOr<std::shared_ptr<JobContext>> created = JobContext::Create(
        kJob, config, [this](const ServerAddress& address) -> absl::StatusOr<std::unique_ptr<ParameterClient>> {
          ++connected[address.process()];
          return std::make_unique<SilentClient>(&aborted[address.process()]);
        });
    INFO(created.status().ToString());
    REQUIRE(created.ok());
    context = *created;
  }

  // All partitions spread over `owners`; `others` are in the list of servers and own nothing.
  absl::Status Update(uint64_t version, const std::vector<uint64_t>& others, const std::vector<uint64_t>& owners) {
    JobView view;
    view.set_job(kJob);
    view.set_run(1);
    view.set_map_version(version);
    for (uint64_t process : others) view.add_servers()->set_process(process);
    for (uint64_t process : owners) view.add_servers()->set_process(process);
    for (uint32_t p = 0; p < kPartitions; ++p) {
      view.add_owner(static_cast<uint32_t>(others.size() + p % owners.size()));
    }
    return context->UpdateView(view);
  }
};

TEST_CASE("PlanJob: a model that no memory holds is refused with its largest tensor", "[worker][unit]") {
  Job job;
  job.mutable_data()->mutable_format()->mutable_synthetic()->set_rows(100);
  job.mutable_data()->mutable_format()->mutable_synthetic()->set_categories(2);
  job.mutable_data()->mutable_format()->mutable_synthetic()->set_ids_per_category(10);
  job.mutable_model()->set_preset(Model::MLP);
  job.mutable_model()->set_embedding_dim(4);
  job.set_partitions(kPartitions);
  for (int i = 0; i < 3; ++i) job.mutable_model()->add_hidden(500000);
  const absl::Status status = PlanJob(job).status();
  CHECK(status.code() == absl::StatusCode::kInvalidArgument);
  const std::string message(status.message());
  INFO(message);
  CHECK(message.find("model: its tensors have 5.00006e+11 values") == 0);
  CHECK(message.find("of shape [500000, 500000]") != std::string::npos);
}

TEST_CASE("JobContext: calls to a server that owns nothing any more are given up, others go on", "[worker][unit]") {
  Rig rig;
  REQUIRE(rig.Update(1, {}, {1, 2, 3}).ok());
  REQUIRE(rig.context->routes()->servers.size() == 3);
  REQUIRE(rig.Update(2, {}, {1, 3}).ok());
  const std::shared_ptr<const RouteMap> routes = rig.context->routes();
  CHECK(routes->version == 2);
  REQUIRE(routes->servers.size() == 2);
  CHECK(routes->servers[0].partitions == std::vector<uint32_t>{0, 2, 4, 6});
  CHECK(routes->servers[1].process == 3);
  CHECK(rig.aborted == std::map<uint64_t, int>{{1, 0}, {2, 1}, {3, 0}});
  // It is connected anew when it owns something again.
  REQUIRE(rig.Update(3, {}, {1, 2, 3}).ok());
  CHECK(rig.connected == std::map<uint64_t, int>{{1, 1}, {2, 2}, {3, 1}});
}

TEST_CASE("JobContext: lanes talk to servers with partitions only, and an older map changes nothing",
          "[worker][unit]") {
  Rig rig;
  REQUIRE(rig.Update(5, {1, 2}, {3, 4}).ok());
  REQUIRE(rig.context->routes()->servers.size() == 2);
  CHECK(rig.context->routes()->servers[1].partitions == std::vector<uint32_t>{1, 3, 5, 7});
  CHECK(rig.connected.count(1) == 0);
  REQUIRE(rig.Update(4, {}, {1}).ok());
  CHECK(rig.context->routes()->version == 5);
  JobView waiting;  // the job waits for servers
  waiting.set_map_version(6);
  CHECK(rig.context->UpdateView(waiting).ok());
  CHECK(rig.context->routes()->version == 5);
  rig.context->Abort(ParameterClient::Calls::kPulls);
  CHECK(rig.aborted == std::map<uint64_t, int>{{3, 100}, {4, 100}});
}

TEST_CASE("JobContext: a map that points past its servers is refused and the old one stays", "[worker][unit]") {
  Rig rig;
  REQUIRE(rig.Update(1, {}, {1}).ok());
  JobView view;
  view.set_map_version(2);
  view.add_servers()->set_process(1);
  for (uint32_t p = 0; p < kPartitions; ++p) view.add_owner(p == 3 ? 1 : 0);
  CHECK(rig.context->UpdateView(view).message() == "map: owner of partition 3 is 1, must be below 1");
  CHECK(rig.context->routes()->version == 1);
  CHECK(rig.aborted[1] == 0);
}

}  // namespace
}  // namespace shoal
