// Periodic checkpoints, and those of cancelled jobs.
#include <algorithm>
#include <catch2/catch.hpp>

#include "scheduler/sim_test_util.h"

namespace shoal {
namespace {

using Catch::Contains;

TEST_CASE("Scheduler: periodic checkpoints; a failed one is a warning", "[scheduler][unit]") {
  const std::string sync = GENERATE("asp", "bsp");
  SimCluster sim;
  sim.splits = 200;
  AddFleet(&sim, 2, 1, 1);
  Job job = SimJob(sync);
  job.mutable_checkpoint()->set_dir("/ckpt");
  job.mutable_checkpoint()->set_every(1000);
  const uint64_t id = sim.Submit(job);
  const auto train = [&](int turns) {
    for (int t = 0; t < turns; ++t) {
      sim.StepAll();
      sim.Turn(absl::Milliseconds(100));
    }
  };
  train(20);
  CHECK(sim.Status(id).checkpoint() == "/ckpt/ckpt-00000001");
  const auto& tasks = sim.Find("s0")->tasks;
  const auto part =
      std::find_if(tasks.begin(), tasks.end(), [](const Task& t) { return t.kind() == Task::WRITE_PART; });
  REQUIRE(part != tasks.end());
  CHECK(part->checkpoint().cut_at_round() == (sync == "bsp"));
  CHECK((part->checkpoint().cut_round() >= 2) == (sync == "bsp"));
  sim.Find("s1")->failing[Task::WRITE_PART] = "disk full";
  train(60);
  CHECK(sim.Status(id).state() == RUNNING);
  CHECK_THAT(sim.Status(id).reason(),
             Contains("periodic checkpoint failed") && Contains("server s1") && Contains("disk full"));
  sim.Find("s1")->failing.clear();
  REQUIRE(sim.RunJob(id, 8000).state() == SUCCEEDED);
  CHECK(sim.Status(id).checkpoint() > "/ckpt/ckpt-00000002");
}

TEST_CASE("Scheduler: a cancelled job writes a checkpoint first, if it has a directory", "[scheduler][unit]") {
  const std::string sync = GENERATE("asp", "bsp");
  const bool disk_full = GENERATE(false, true);
  SimCluster sim;
  AddFleet(&sim, 2, 1, 1);
  Job job = SimJob(sync);
  job.mutable_checkpoint()->set_dir("/ckpt");
  const uint64_t id = sim.Submit(job);
  GetWork(&sim, sim.Find("w0"));
  if (disk_full) sim.Find("s1")->failing[Task::WRITE_PART] = "disk full";
  JobRef ref;
  ref.set_job(id);
  Ask(sim.scheduler.get(), &Scheduler::Cancel, ref);
  CHECK(sim.Status(id).state() == RUNNING);
  for (int t = 0; t < 100 && sim.Status(id).state() == RUNNING; ++t) sim.Turn(absl::Milliseconds(100));
  CHECK(sim.Status(id).state() == CANCELLED);
  CHECK(sim.Status(id).checkpoint() == (disk_full ? "" : "/ckpt/ckpt-00000001"));
  CHECK_THAT(sim.Status(id).reason(), Contains("cancelled by request"));
  if (disk_full) CHECK_THAT(sim.Status(id).reason(), Contains("its checkpoint failed") && Contains("disk full"));
}

TEST_CASE("Scheduler: cancelling a bsp job whose rounds stand still cuts where they are", "[scheduler][unit]") {
  const bool live = GENERATE(false, true);
  SimCluster sim;
  AddFleet(&sim, 2, 1, 1);
  Job job = SimJob("bsp");
  job.mutable_checkpoint()->set_dir("/ckpt");
  const uint64_t id = sim.Submit(job);
  SimProcess* const worker = sim.Find("w0");
  GetWork(&sim, worker);
  if (!live) {
    sim.Kill(worker);
    for (int t = 0; t < 10; ++t) sim.Turn(absl::Milliseconds(400));
  }
  for (const auto& process : sim.processes) {
    if (process->role == SERVER) process->jobs.at(id).rounds_applied = 5;
  }
  JobRef ref;
  ref.set_job(id);
  Ask(sim.scheduler.get(), &Scheduler::Cancel, ref);
  const absl::Duration cancelled = sim.clock.Now();
  for (int t = 0; t < 100 && sim.Status(id).state() == RUNNING; ++t) sim.Turn(absl::Milliseconds(50));
  CHECK(sim.Status(id).state() == CANCELLED);
  CHECK(sim.Status(id).checkpoint() == "/ckpt/ckpt-00000001");
  CHECK(sim.clock.Now() - cancelled < (live ? absl::Seconds(3) : absl::Milliseconds(500)));
  const auto& tasks = sim.Find("s1")->tasks;
  const auto part =
      std::find_if(tasks.begin(), tasks.end(), [](const Task& t) { return t.kind() == Task::WRITE_PART; });
  REQUIRE(part != tasks.end());
  CHECK(part->checkpoint().cut_at_round());
  CHECK(part->checkpoint().cut_round() == 5);
}

TEST_CASE("Scheduler: cancelling does not wait for a cut that nobody brings", "[scheduler][unit]") {
  SimCluster sim;
  AddFleet(&sim, 2, 1, 1);
  Job job = SimJob("bsp");
  job.mutable_checkpoint()->set_dir("/ckpt");
  job.mutable_checkpoint()->set_every(1000);
  const uint64_t id = sim.Submit(job);
  GetWork(&sim, sim.Find("w0"));
  sim.Kill(sim.Find("w0"));
  sim.Find("s0")->stuck.insert(Task::WRITE_PART);
  for (int t = 0; t < 100; ++t) sim.Turn(absl::Milliseconds(100));
  JobRef ref;
  ref.set_job(id);
  Ask(sim.scheduler.get(), &Scheduler::Cancel, ref);
  for (int t = 0; t < 100; ++t) sim.Turn(absl::Milliseconds(100));
  CHECK(sim.Status(id).state() == RUNNING);
  sim.Turn(absl::Milliseconds(100));
  CHECK(sim.Status(id).state() == CANCELLED);
  CHECK_THAT(sim.Status(id).reason(), Contains("was not complete in time"));
}

TEST_CASE("Scheduler: a checkpoint that lacks a partition, has it twice or was cut at two rounds is given up",
          "[scheduler][unit]") {
  const std::string sync = GENERATE("asp", "bsp");
  const std::string how = GENERATE("lacks", "twice", "unknown", "round");
  if (how == "round" && sync != "bsp") return;
  const bool periodic = GENERATE(true, false);
  SimCluster sim;
  sim.splits = periodic ? 200 : 4;
  AddFleet(&sim, 2, 1, 1);
  Job job = SimJob(sync);
  job.mutable_checkpoint()->set_dir("/ckpt");
  if (periodic) job.mutable_checkpoint()->set_every(1000);
  const uint64_t id = sim.Submit(job);
  const auto train = [&](int turns) {
    for (int t = 0; t < turns; ++t) {
      sim.StepAll();
      sim.Turn(absl::Milliseconds(100));
    }
  };
  if (periodic) train(20);
  const std::string before = sim.Status(id).checkpoint();
  CHECK(before.empty() == !periodic);
  int tampered = 0;
  sim.tamper = [&](PartInfo* part) {
    if (part->file() != "s0" || tampered++ > 0) return;
    if (how == "lacks") part->mutable_partitions()->RemoveLast();
    if (how == "twice") part->add_partitions(1);
    if (how == "unknown") part->add_partitions(8);
    if (how == "round") part->mutable_done(0)->set_rounds_applied(part->done(0).rounds_applied() + 1);
  };
  for (int t = 0; t < 200 && tampered == 0; ++t) train(1);
  REQUIRE(tampered == 1);
  train(2);
  if (periodic) {
    CHECK(sim.Status(id).state() == RUNNING);
    CHECK(sim.Status(id).checkpoint() == before);
    CHECK_THAT(sim.LogText(id), Contains("is given up"));
  }
  CHECK_THAT(sim.LogText(id), Contains(how == "lacks"     ? "partition 6 is in no part"
                                       : how == "twice"   ? "partition 1 is in s0 and in s1"
                                       : how == "unknown" ? "s0 holds partition 8"
                                                          : "was cut at round"));
  REQUIRE(sim.RunJob(id, 8000).state() == SUCCEEDED);
  CHECK(sim.Status(id).checkpoint() > before);
  CHECK(AllDone(sim, id, 2 * sim.splits));
}

TEST_CASE("Scheduler: two jobs that have not ended never share a checkpoint.dir", "[scheduler][unit]") {
  const bool queued = GENERATE(false, true);  // where nobody is, the first job waits
  SimCluster sim(TemporaryFile("shared-directory.db"));
  if (!queued) AddFleet(&sim, 1, 1, 1);
  Job job = SimJob("asp");
  const uint64_t reader = sim.Submit(job);  // writes nothing
  job.mutable_checkpoint()->set_dir("/a/ckpt");
  const uint64_t first = sim.Submit(job);
  sim.Turn();
  const auto submit = [&sim, &job](const std::string& dir, const std::string& resume = "") {
    SubmitRequest request;
    *request.mutable_job() = job;
    request.mutable_job()->set_name("second");
    request.mutable_job()->mutable_checkpoint()->set_dir(dir);
    request.set_restore_from(resume);
    return (*Ask(sim.scheduler.get(), &Scheduler::Submit, request))->status();
  };
  for (const bool restarted : {false, true}) {
    if (restarted) sim.Restart();
    for (const char* dir :
         {"/a/ckpt", "/a/ckpt/", "//a/ckpt", "/a//ckpt//", "/a/./ckpt", "/a/ckpt/.", "/a/b/../ckpt"}) {
      CAPTURE(queued, restarted, dir);
      const absl::Status refused = submit(dir);
      CHECK(refused.code() == absl::StatusCode::kFailedPrecondition);
      CHECK_THAT(std::string(refused.message()),
                 Contains("checkpoint.dir: /a/ckpt is where job " + std::to_string(first) + " (" + job.name() + ")") &&
                     Contains("shoal cancel " + std::to_string(first)));
    }
    CHECK_FALSE(submit("/a/ckpt", "latest").ok());
  }
  CHECK(submit("/a/ckpt2").ok());
  CHECK(submit("/a").ok());
  CHECK(submit("/a/ckpt/deeper", "/a/ckpt/ckpt-00000001").ok());  // reads what the first one writes
  if (queued) AddFleet(&sim, 1, 1, 1);
  REQUIRE(sim.RunJob(first).state() == SUCCEEDED);
  CHECK(submit("/a/ckpt", "latest").ok());
  CHECK(sim.RunJob(reader).state() == SUCCEEDED);
}

TEST_CASE("Scheduler: numbers of checkpoints go on from the highest there is, whatever its size", "[scheduler][unit]") {
  // The last three: a later name, no name at all, and the last one, after which there is none.
  const auto [there, first] =
      GENERATE(table<std::string, std::string>({{"ckpt-00000007", "ckpt-00000008"},
                                                {"ckpt-99999999", "ckpt-100000000"},
                                                {"ckpt-9223372036854775805", "ckpt-9223372036854775806"},
                                                {"ckpt-9223372036854775807", "ckpt-00000001"},
                                                {"ckpt-9223372036854775806", ""}}));
  SimCluster sim;
  AddFleet(&sim, 1, 1, 1);
  sim.checkpoints["/ckpt/" + there];
  const JobStatus status = sim.RunJob(sim.Submit(Saved("asp")));
  CAPTURE(there, status.reason());
  if (first.empty()) {
    CHECK(status.state() == FAILED);
    CHECK_THAT(status.reason(), Contains("/ckpt holds " + there + ", after which there is no number: rename it"));
  } else {
    CHECK(status.state() == SUCCEEDED);
    CHECK(status.checkpoint() == "/ckpt/" + first);
  }
}

}  // namespace
}  // namespace shoal
