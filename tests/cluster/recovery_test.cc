// Servers that die, leave, come back and are added while a job trains, in one process: the counting job stays exact, a
// bsp job ends with the bits of an undisturbed run.
#include <catch2/catch.hpp>
#include <chrono>
#include <functional>
#include <map>
#include <thread>

#include "absl/strings/str_cat.h"
#include "local/local_cluster.h"
#include "local/run_job.h"
#include "tests/testing/exact_counts.h"
#include "tests/testing/test_jobs.h"

namespace shoal {
namespace {

// For what happens at once on an idle machine and late on a busy one.
constexpr absl::Duration kPatience = absl::Seconds(60);
constexpr absl::Duration kCallTimeout = absl::Seconds(10);

LocalClusterOptions Options(int servers) {
  LocalClusterOptions options;
  options.servers = servers;
  options.workers = 2;
  options.threads = 2;
  options.heartbeat = absl::Milliseconds(100);
  options.deadline = absl::Seconds(1);
  // A batch takes a while, so that what is done to the cluster happens in the middle of training.
  options.before_batch = [](int, uint32_t, uint64_t) { std::this_thread::sleep_for(std::chrono::milliseconds(2)); };
  return options;
}

// A cluster with one job that trains.
class Training {
 public:
  Training(const LocalClusterOptions& options, const Job& job, const std::string& restore_from = "") {
    cluster = *LocalCluster::Start(options);
    SubmitRequest request;
    *request.mutable_job() = job;
    request.set_restore_from(restore_from);
    id = cluster->scheduler()->Submit(request, kCallTimeout)->job();
  }

  // Waits until the job is as wanted, or ends.
  JobStatus Await(const std::function<bool(const JobStatus&)>& wanted) {
    GetJobRequest request;
    request.set_job(id);
    request.set_wait_ms(200);
    const absl::Duration end = Clock::Steady().Now() + kPatience;
    for (;;) {
      const absl::StatusOr<JobStatus> status = cluster->scheduler()->GetJob(request, kCallTimeout);
      REQUIRE(status.ok());
      INFO(Describe(*status) << "\n" << Logs());
      if (wanted(*status)) return *status;
      REQUIRE(status->state() < SUCCEEDED);
      REQUIRE(Clock::Steady().Now() < end);
      request.set_known_version(status->version());
    }
  }
  void AwaitSplits(uint64_t splits) {
    Await([splits](const JobStatus& status) { return status.splits_done() >= splits; });
  }
  JobStatus AwaitEnd() {
    const JobStatus status = *WaitForJob(cluster->scheduler(), id, {});
    INFO(Describe(status) << "\n" << Logs());
    REQUIRE(status.state() == SUCCEEDED);
    return status;
  }
  std::string Logs() {
    JobRef ref;
    ref.set_job(id);
    std::string text;
    const absl::StatusOr<JobLogs> logs = cluster->scheduler()->Logs(ref, kCallTimeout);
    for (int i = 0; logs.ok() && i < logs->lines_size(); ++i) absl::StrAppend(&text, logs->lines(i), "\n");
    return text;
  }
  absl::Status Drain(const std::string& name, absl::Duration grace = absl::ZeroDuration()) {
    DrainRequest request;
    request.set_name(name);
    request.set_grace_ms(static_cast<uint32_t>(absl::ToInt64Milliseconds(grace)));
    return cluster->scheduler()->Drain(request, kCallTimeout).status();
  }

  std::unique_ptr<LocalCluster> cluster;
  uint64_t id = 0;
};

std::map<std::string, uint64_t> Digests(const JobStatus& status) {
  std::map<std::string, uint64_t> digests;
  for (const TableDigest& digest : status.digests()) digests[digest.table()] = digest.sum();
  REQUIRE_FALSE(digests.empty());
  return digests;
}

// A bsp job that learns, so that the order of its steps shows in the bits.
Job LearningJob(const std::string& dir, uint64_t every_ms) {
  Job job = TestJob(
      "name: learns\n"
      "data: {format: {synthetic: {rows: 6000, categories: 4, ids_per_category: 100}}, passes: 2, split_bytes: 4KiB}\n"
      "model: {preset: deepfm, embedding_dim: 4, hidden: [8]}\n"
      "batch: {size: 64}\n"
      "sync: {bsp: 3}\n"
      "partitions: 16\n"
      "checkpoint: {dir: ckpt}\n",
      dir);
  job.mutable_checkpoint()->set_every(every_ms);
  return job;
}

std::map<std::string, uint64_t> CalmDigests() {
  TempDir dir;
  LocalClusterOptions options = Options(1);
  options.workers = 1;
  options.before_batch = nullptr;
  Training calm(options, LearningJob(dir.path(), 0));
  return Digests(calm.AwaitEnd());
}

TEST_CASE("Recovery: a server dies; asp and ssp train again exactly what its partitions miss", "[cluster]") {
  const std::string sync = GENERATE("asp", "{ssp: 2}");
  const uint64_t every_ms = GENERATE(0, 200);
  TempDir dir;
  Job job = CountingJob(dir.path(), 20000, 2, sync);
  job.mutable_checkpoint()->set_every(every_ms);
  Training training(Options(3), job);
  training.AwaitSplits(4);
  if (every_ms > 0) {
    training.Await([](const JobStatus& status) { return !status.checkpoint().empty() && status.splits_done() >= 8; });
  }
  training.cluster->KillServer(1);
  const JobStatus status = training.AwaitEnd();
  INFO(training.Logs());
  RequireExact(job);
  REQUIRE(status.recoveries_size() == 1);
  CHECK(status.recoveries(0).partitions() > 0);
}

TEST_CASE("Recovery: a bsp job goes back to its checkpoint, to the same bits", "[cluster]") {
  const uint64_t every_ms = GENERATE(0, 150);
  const uint64_t killed_at = GENERATE(3, 20);
  const std::map<std::string, uint64_t> calm = CalmDigests();
  TempDir dir;
  Training training(Options(3), LearningJob(dir.path(), every_ms));
  training.AwaitSplits(killed_at);
  training.cluster->KillServer(2);
  const JobStatus status = training.AwaitEnd();
  INFO(training.Logs());
  CHECK(Digests(status) == calm);
  CHECK(status.recoveries_in_all() == 1);
}

TEST_CASE("Recovery: the only server dies; the next one takes over", "[cluster]") {
  const std::string sync = GENERATE("asp", "{bsp: 3}");
  TempDir dir;
  const Job job = CountingJob(dir.path(), 10000, 1, sync);
  Training training(Options(1), job);
  training.AwaitSplits(2);
  training.cluster->KillServer(0);
  training.Await(
      [](const JobStatus& status) { return status.reason().find("waiting for a server") != std::string::npos; });
  REQUIRE(training.cluster->AddServer("server-0").ok());
  training.AwaitEnd();
  RequireExact(job);
}

TEST_CASE("Replicas: the backup takes over and nothing is trained again", "[cluster]") {
  TempDir dir;
  Job job = CountingJob(dir.path(), 20000, 2, "{ssp: 2}");
  job.set_replicas(2);
  Training training(Options(3), job);
  training.Await(
      [](const JobStatus& status) { return status.splits_done() >= 4 && status.partitions_without_backup() == 0; });
  training.cluster->KillServer(0);
  const JobStatus status = training.AwaitEnd();
  INFO(training.Logs());
  RequireExact(job);
  REQUIRE(status.recoveries_size() >= 1);
  CHECK(status.recoveries(0).splits_again() == 0);
  CHECK(training.Logs().find("partitions go to their backups") != std::string::npos);
}

TEST_CASE("Drain: a server hands its partitions over and goes; a new one takes its share", "[cluster]") {
  const std::string sync = GENERATE("asp", "{ssp: 2}", "{bsp: 3}");
  TempDir dir;
  const Job job = CountingJob(dir.path(), 30000, 2, sync);
  Training training(Options(2), job);
  training.AwaitSplits(3);
  REQUIRE(training.Drain("server-0").ok());
  const absl::Duration end = Clock::Steady().Now() + kPatience;
  absl::Status reason;
  while (!training.cluster->ServerEnded(0, &reason)) {
    INFO(training.Logs());
    REQUIRE(Clock::Steady().Now() < end);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  CHECK(reason.ok());
  training.cluster->KillServer(0);
  CHECK(training.Drain("server-1").code() == absl::StatusCode::kFailedPrecondition);
  REQUIRE(training.cluster->AddServer("server-2").ok());
  training.Await([&](const JobStatus& status) {
    return status.state() != RUNNING || training.Logs().find("to server server-2") != std::string::npos;
  });
  const JobStatus status = training.AwaitEnd();
  INFO(training.Logs());
  RequireExact(job);
  CHECK(training.Logs().find("partitions have moved from server server-0 to server server-1") != std::string::npos);
  CHECK(status.recoveries_in_all() == 0);
}

TEST_CASE("Resume: a job that was cancelled goes on, with the same bits in bsp", "[cluster]") {
  const bool bsp = GENERATE(true, false);
  TempDir dir;
  const Job job = bsp ? LearningJob(dir.path(), 0) : CountingJob(dir.path(), 20000, 2, "asp");
  Training first(Options(2), job);
  first.AwaitSplits(5);
  JobRef ref;
  ref.set_job(first.id);
  REQUIRE(first.cluster->scheduler()->Cancel(ref, kCallTimeout).ok());
  const JobStatus cancelled = *WaitForJob(first.cluster->scheduler(), first.id, {});
  REQUIRE(cancelled.state() == CANCELLED);
  REQUIRE(cancelled.checkpoint() != "");
  if (bsp) {
    Job other = job;
    other.set_seed(7);
    Training refused(Options(1), other, cancelled.checkpoint());
    const JobStatus failed = *WaitForJob(refused.cluster->scheduler(), refused.id, {});
    CHECK(failed.state() == FAILED);
    CHECK(failed.reason().find("seed") != std::string::npos);
  }
  Training second(Options(1), job, "latest");
  const JobStatus status = second.AwaitEnd();
  INFO(second.Logs());
  // It goes on counting, and trains what the checkpoint has not.
  CHECK(status.examples_before() > 0);
  CHECK(status.examples() - status.examples_before() < 40000);
  if (!bsp) CHECK(status.examples() == 40000);
  if (bsp) {
    CHECK(Digests(status) == CalmDigests());
  } else {
    RequireExact(job);
  }
}

}  // namespace
}  // namespace shoal
