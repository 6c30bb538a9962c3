// Losses, drains, moves, backups and resumed jobs, on pretended servers and workers.
#include <algorithm>
#include <catch2/catch.hpp>

#include "absl/strings/str_cat.h"
#include "scheduler/sim_test_util.h"

namespace shoal {
namespace {

using Catch::Contains;

std::map<std::string, int> OwnedBy(SimCluster* sim, uint64_t job) {
  std::map<std::string, int> owned;
  const ClusterView cluster = sim->View(*sim->processes.front());
  for (const JobView& view : cluster.jobs()) {
    if (view.job() != job) continue;
    for (uint32_t owner : view.owner()) ++owned[view.servers(static_cast<int>(owner)).name()];
  }
  return owned;
}

std::map<uint32_t, uint64_t> Histories(const SimCluster& sim, uint64_t job) {
  std::map<uint32_t, uint64_t> histories;
  for (const auto& [p, partition] : sim.data.at(job).partitions) histories[p] = partition.history;
  return histories;
}

TEST_CASE("Recovery: a lost server's partitions come back from nothing or a checkpoint, and what they miss is trained",
          "[scheduler][unit]") {
  const std::string sync = GENERATE("asp", "ssp");
  const uint64_t every = GENERATE(0, 300);
  SimCluster sim;
  AddFleet(&sim, 3, 2, 2);
  const uint64_t id = sim.Submit(Saved(sync, every));
  TrainTo(&sim, id, 4);
  if (every > 0) {
    Rest(&sim, absl::Milliseconds(400));
    REQUIRE(sim.Status(id).checkpoint() != "");
    TrainTo(&sim, id, 8);
  }
  const uint64_t version = sim.View(*sim.Find("w0")).jobs(0).map_version();
  sim.Kill(sim.Find("s1"));
  Bury(&sim);
  INFO(sim.LogText(id));
  CHECK(OwnedBy(&sim, id) == std::map<std::string, int>{{"s0", 4}, {"s2", 4}});
  CHECK(sim.View(*sim.Find("w0")).jobs(0).map_version() > version);
  CHECK_THAT(sim.LogText(id), Contains("server s1") && Contains("partitions go back to"));
  CHECK_THAT(sim.LogText(id), Contains("splits that were handed in; they are leased again"));
  const int restores = sim.Find("s0")->done[Task::RESTORE_PARTITIONS];
  CHECK(restores == 1);
  sim.RunJob(id);
  CheckExact(&sim, id, 12);
  const JobStatus status = sim.Status(id);
  REQUIRE(status.recoveries_size() == 1);
  CHECK_THAT(status.recoveries(0).what(), Contains("server s1") && Contains("died"));
  CHECK(status.recoveries(0).partitions() == 3);
  CHECK(status.recoveries(0).splits_again() > 0);
  CHECK(status.recoveries(0).seconds() > 0);
}

TEST_CASE("Recovery: without a server the job waits and says so; a restarted one takes over", "[scheduler][unit]") {
  const std::string sync = GENERATE("asp", "bsp");
  SimCluster sim;
  AddFleet(&sim, 1, 1, 2);
  const uint64_t id = sim.Submit(Saved(sync));
  TrainTo(&sim, id, 3);
  sim.Kill(sim.Find("s0"));
  Bury(&sim);
  CHECK(sim.Status(id).state() == RUNNING);
  CHECK_THAT(sim.Status(id).reason(), Contains("waiting for a server"));
  sim.Add(SERVER, "s0");
  sim.RunJob(id);
  CheckExact(&sim, id, 12);
}

TEST_CASE("Recovery: a server that comes back under its name is a loss of the older one", "[scheduler][unit]") {
  const std::string sync = GENERATE("asp", "bsp");
  SimCluster sim;
  AddFleet(&sim, 2, 1, 2);
  const uint64_t id = sim.Submit(Saved(sync));
  TrainTo(&sim, id, 3);
  sim.Kill(sim.Find("s1"), /*hung=*/true);
  sim.Add(SERVER, "s1");
  sim.Turn();
  CHECK(OwnedBy(&sim, id) == std::map<std::string, int>{{"s0", 4}, {"s1", 4}});
  sim.RunJob(id);
  CheckExact(&sim, id, 12);
  CHECK_THAT(sim.LogText(id), Contains("was restarted"));
}

TEST_CASE("Recovery: a second server dies before the first one's partitions are back", "[scheduler][unit]") {
  SimCluster sim;
  AddFleet(&sim, 3, 2, 1);
  const uint64_t id = sim.Submit(Saved("asp"));
  TrainTo(&sim, id, 6);
  sim.Find("s0")->stuck.insert(Task::RESTORE_PARTITIONS);
  sim.Kill(sim.Find("s1"));
  Bury(&sim);
  CHECK(sim.Status(id).partitions_restoring() > 0);
  CHECK_THAT(sim.Status(id).reason(), Contains("restoring"));
  sim.Kill(sim.Find("s0"));
  Bury(&sim);
  CHECK(sim.Status(id).partitions_restoring() == 0);
  CHECK(OwnedBy(&sim, id) == std::map<std::string, int>{{"s2", 8}});
  sim.RunJob(id);
  CheckExact(&sim, id, 12);
  CHECK(sim.Status(id).recoveries_in_all() == 2);
}

TEST_CASE("Recovery: no checkpoint is begun while a partition is lost", "[scheduler][unit]") {
  SimCluster sim;
  AddFleet(&sim, 2, 1, 1);
  const uint64_t id = sim.Submit(Saved("asp", 500));
  TrainTo(&sim, id, 2);
  sim.Find("s0")->stuck.insert(Task::RESTORE_PARTITIONS);
  sim.Kill(sim.Find("s1"));
  Bury(&sim);
  const int parts = sim.Find("s0")->done[Task::WRITE_PART];
  Rest(&sim, absl::Seconds(2));
  CHECK(sim.Find("s0")->done[Task::WRITE_PART] == parts);
  sim.Find("s0")->stuck.clear();
  Rest(&sim, absl::Seconds(2));
  CHECK(sim.Find("s0")->done[Task::WRITE_PART] > parts);
  sim.RunJob(id);
  CheckExact(&sim, id, 12);
}

TEST_CASE("Recovery: a loss at the end of a job takes it back to training", "[scheduler][unit]") {
  const std::string sync = GENERATE("asp", "bsp");
  // While it evaluates, while parts are written, while the manifest is.
  const Task::Kind at = GENERATE(Task::NONE, Task::WRITE_PART, Task::COMMIT_CHECKPOINT);
  SimCluster sim;
  AddFleet(&sim, 2, 1, 2);
  for (const char* name : {"s0", "s1"}) sim.Find(name)->stuck.insert(at);
  const uint64_t id = sim.Submit(Saved(sync));
  for (int t = 0; t < 500 && sim.Status(id).state() != FINALIZING; ++t) {
    sim.StepAll();
    sim.Turn();
  }
  if (at != Task::NONE) {
    for (int t = 0; t < 20; ++t) {
      sim.StepAll();
      sim.Turn();
    }
  }
  REQUIRE(sim.Status(id).state() == FINALIZING);
  sim.Find("s1")->stuck.clear();
  sim.Kill(sim.Find("s0"));
  Bury(&sim);
  CHECK(sim.Status(id).state() == RUNNING);
  sim.RunJob(id);
  CheckExact(&sim, id, 12);
  CHECK(sim.Status(id).eval().examples() == 2 * SimCluster::kRecords);
}

TEST_CASE("Recovery: bsp goes back to its checkpoint under a new run, to the same bits", "[scheduler][unit]") {
  SimCluster calm;
  AddFleet(&calm, 2, 1, 1);
  const uint64_t undisturbed = calm.Submit(SimJob("bsp"));
  REQUIRE(calm.RunJob(undisturbed).state() == SUCCEEDED);
  const uint64_t every = GENERATE(0, 200);
  const uint64_t killed_at = GENERATE(1, 4, 7, 11);
  SimCluster sim;
  AddFleet(&sim, 3, 2, 2);
  const uint64_t id = sim.Submit(Saved("bsp", every));
  TrainTo(&sim, id, killed_at);
  const uint64_t run = sim.View(*sim.Find("w0")).jobs(0).run();
  sim.Kill(sim.Find("s2"));
  Bury(&sim);
  CHECK(sim.View(*sim.Find("w0")).jobs(0).run() == run + 1);
  CHECK_THAT(sim.LogText(id), Contains("all partitions go back to"));
  sim.RunJob(id);
  CheckExact(&sim, id, 12);
  CHECK(Histories(sim, id) == Histories(calm, undisturbed));
}

TEST_CASE("Recovery: a damaged checkpoint gives way to the one before", "[scheduler][unit]") {
  const std::string sync = GENERATE("asp", "bsp");
  SimCluster sim;
  sim.splits = 60;
  AddFleet(&sim, 2, 1, 2);
  const uint64_t id = sim.Submit(Saved(sync, 300));
  TrainTo(&sim, id, 2);
  for (int t = 0; t < 200 && sim.checkpoints.size() < 2; ++t) {
    sim.StepAll();
    sim.Turn(absl::Milliseconds(50));
  }
  REQUIRE(sim.checkpoints.size() >= 2);
  REQUIRE(sim.Status(id).state() == RUNNING);
  const std::string newest = sim.Status(id).checkpoint();
  sim.damaged.insert(newest);
  sim.Kill(sim.Find("s1"));
  for (int t = 0; t < 200 && sim.LogText(id).find("takes its place") == std::string::npos; ++t) {
    sim.Turn(absl::Milliseconds(50));
  }
  CHECK_THAT(sim.LogText(id), Contains("the checkpoint before it takes its place"));
  sim.RunJob(id);
  CheckExact(&sim, id, 120);
}

TEST_CASE("Recovery: a job goes on from the newest checkpoint that can be read", "[scheduler][unit]") {
  const std::string sync = GENERATE("asp", "bsp");
  const int good = GENERATE(2, 1, 0);  // of three
  SimCluster sim;
  sim.splits = 60;
  AddFleet(&sim, 2, 1, 2);
  const uint64_t first = sim.Submit(Saved(sync, 300));
  for (int t = 0; t < 400 && sim.checkpoints.size() < 3; ++t) {
    sim.StepAll();
    sim.Turn(absl::Milliseconds(50));
  }
  REQUIRE(sim.checkpoints.size() == 3);
  JobRef ref;
  ref.set_job(first);
  Ask(sim.scheduler.get(), &Scheduler::Cancel, ref);
  Ask(sim.scheduler.get(), &Scheduler::Cancel, ref);
  REQUIRE(sim.Status(first).state() == CANCELLED);
  std::vector<std::string> paths;
  for (const auto& [path, partitions] : sim.checkpoints) paths.push_back(path);
  for (size_t i = static_cast<size_t>(good); i < 3; ++i) sim.damaged.insert(paths[i]);
  const uint64_t id = sim.Submit(Saved(sync, 300), "latest");
  sim.RunJob(id);
  if (good == 0) {
    CHECK(sim.Status(id).state() == FAILED);
    CHECK_THAT(sim.Status(id).reason(), Contains("its checksum is wrong") && Contains(paths[0]));
    return;
  }
  CHECK_THAT(sim.LogText(id), Contains("its checksum is wrong") && Contains("takes its place: " + paths[good - 1]));
  CheckExact(&sim, id, 120);
  CHECK(sim.Status(id).examples() == 120 * SimCluster::kRecords);
  CHECK(sim.Status(id).examples_before() > 0);
}

TEST_CASE("Recovery: one named checkpoint, or one of another training, does not give way to an older one",
          "[scheduler][unit]") {
  const bool named = GENERATE(false, true);
  SimCluster sim;
  AddFleet(&sim, 2, 1, 2);
  const uint64_t first = sim.Submit(Saved("asp", 0));
  REQUIRE(sim.RunJob(first).state() == SUCCEEDED);
  REQUIRE(sim.RunJob(sim.Submit(Saved("asp", 0))).state() == SUCCEEDED);
  REQUIRE(sim.checkpoints.size() == 2);
  if (named) {
    sim.damaged.insert(sim.newest_checkpoint);
  } else {
    sim.Find("s0")->failing[Task::PREPARE_JOB] = "is of another training";
  }
  const uint64_t id = sim.Submit(Saved("asp", 0), named ? sim.newest_checkpoint : "latest");
  sim.RunJob(id, 200);
  CHECK(sim.Status(id).state() == FAILED);
  CHECK_THAT(sim.Status(id).reason(), Contains(sim.newest_checkpoint));
}

TEST_CASE("Recovery: all examples are counted whatever workers had not told when they died", "[scheduler][unit]") {
  const std::string sync = GENERATE("asp", "bsp");
  SimCluster sim;
  sim.splits = 30;
  AddFleet(&sim, 1, 3, 2);
  const uint64_t id = sim.Submit(SimJob(sync));
  for (const char* name : {"w0", "w1"}) {
    TrainTo(&sim, id, sim.Status(id).splits_done() + 5);
    for (int t = 0; t < 40; ++t) sim.StepAll();  // without a heartbeat
    sim.Kill(sim.Find(name));
  }
  sim.RunJob(id);
  CheckExact(&sim, id, 60);
  CHECK(sim.Status(id).examples() == 60 * SimCluster::kRecords);
}

TEST_CASE("Start: warm start from a table that the model does not have", "[scheduler][unit]") {
  SimCluster sim;
  AddFleet(&sim, 1, 1, 1);
  Job job = SimJob("asp");
  job.mutable_warm_start()->set_checkpoint("/other");
  job.mutable_warm_start()->add_tables("wide");
  const JobStatus status = sim.RunJob(sim.Submit(job), 100);
  CHECK(status.state() == FAILED);
  CHECK_THAT(status.reason(), Contains("warm_start.tables: the model has no table or tensor called \"wide\""));
}

TEST_CASE("Submit: going on from the newest checkpoint needs a directory of them", "[scheduler][unit]") {
  SimCluster sim;
  SubmitRequest request;
  *request.mutable_job() = SimJob("asp");
  request.set_restore_from("latest");
  const auto answer = Ask(sim.scheduler.get(), &Scheduler::Submit, request);
  CHECK(answer->value().status().code() == absl::StatusCode::kInvalidArgument);
  CHECK_THAT(std::string(answer->value().status().message()), Contains("checkpoint.dir: missing"));
}

TEST_CASE("Drain: a worker is told to exit and its splits go to others", "[scheduler][unit]") {
  SimCluster sim;
  AddFleet(&sim, 1, 2, 1);
  const uint64_t id = sim.Submit(SimJob("asp"));
  TrainTo(&sim, id, 2);
  REQUIRE(sim.Drain("w0").ok());
  CHECK(sim.Drain("nobody").code() == absl::StatusCode::kNotFound);
  CHECK(sim.View(*sim.Find("w0")).shutdown());
  CHECK_FALSE(sim.View(*sim.Find("w1")).shutdown());
  CHECK((*Ask(sim.scheduler.get(), &Scheduler::Status, Empty()))->value().processes(1).state() == "DRAINING");
  sim.Find("w0")->threads[0].asked = nullptr;
  sim.AskWork(sim.Find("w0"), 0);
  CHECK((*sim.Find("w0")->threads[0].asked)->value().kind() == NextWorkReply::EXIT);
  sim.RunJob(id);
  CHECK(sim.Find("w0") == nullptr);
  CHECK(sim.Drain("w0").ok());  // a repeat after it has left
  sim.Leave(sim.Find("w1"));    // without being asked to
  sim.clock.Advance(sim.options.deadline + absl::Seconds(1.5));
  for (const char* gone : {"w0", "w1"}) {
    CHECK(sim.Drain(gone).code() == absl::StatusCode::kFailedPrecondition);
    CHECK_THAT(std::string(sim.Drain(gone).message()),
               Contains(absl::StrCat("worker ", gone)) && Contains("is LEFT") && Contains("s ago"));
  }
  sim.Kill(sim.Find("s0"));
  Bury(&sim);
  CHECK(sim.Drain("s0").code() == absl::StatusCode::kFailedPrecondition);
  CHECK_THAT(std::string(sim.Drain("s0").message()), Contains("server s0") && Contains("is DEAD"));
  CheckExact(&sim, id, 12);
}

TEST_CASE("Drain: a server's partitions move while training goes on, then it goes", "[scheduler][unit]") {
  const std::string sync = GENERATE("asp", "ssp", "bsp");
  SimCluster sim;
  AddFleet(&sim, 2, 2, 2);
  const uint64_t id = sim.Submit(SimJob(sync));
  TrainTo(&sim, id, 3);
  REQUIRE(sim.Drain("s0").ok());
  REQUIRE(sim.Drain("s0").ok());
  for (int t = 0; t < 300 && sim.Find("s0") != nullptr; ++t) {
    sim.StepAll();
    sim.Turn();
  }
  INFO(sim.LogText(id));
  CHECK(sim.Find("s0") == nullptr);
  REQUIRE(sim.Status(id).state() == RUNNING);
  CHECK(OwnedBy(&sim, id) == std::map<std::string, int>{{"s1", 8}});
  sim.RunJob(id);
  CheckExact(&sim, id, 12);
  CHECK(sim.Status(id).recoveries_in_all() == 0);
  CHECK(sim.View(*sim.Find("w0")).jobs_size() == 0);
}

TEST_CASE("Drain: the last server is refused, unless it has a grace: then a checkpoint is written",
          "[scheduler][unit]") {
  const std::string sync = GENERATE("asp", "bsp");
  SimCluster sim;
  AddFleet(&sim, 1, 1, 2);
  const uint64_t id = sim.Submit(Saved(sync));
  TrainTo(&sim, id, 3);
  const absl::Status refused = sim.Drain("s0");
  CHECK(refused.code() == absl::StatusCode::kFailedPrecondition);
  CHECK_THAT(std::string(refused.message()), Contains("is the last server"));
  REQUIRE(sim.Drain("s0", absl::Seconds(30)).ok());
  for (int t = 0; t < 100 && sim.Find("s0") != nullptr; ++t) {
    sim.StepAll();
    sim.Turn();
  }
  CHECK(sim.Find("s0") == nullptr);
  CHECK(sim.Status(id).checkpoint() == "/ckpt/ckpt-00000001");
  CHECK_THAT(sim.Status(id).reason(), Contains("waiting for a server"));
  sim.Add(SERVER, "s1");
  sim.RunJob(id);
  CheckExact(&sim, id, 12);
}

TEST_CASE("Drain: moves that do not end in time give way to a checkpoint and a recovery", "[scheduler][unit]") {
  const std::string sync = GENERATE("asp", "bsp");
  SimCluster sim;
  AddFleet(&sim, 2, 1, 2);
  const uint64_t id = sim.Submit(Saved(sync));
  TrainTo(&sim, id, 3);
  sim.Find("s0")->stuck.insert(Task::MOVE_PARTITIONS);
  REQUIRE(sim.Drain("s0", absl::Seconds(10)).ok());
  const absl::Duration asked = sim.clock.Now();
  for (int t = 0; t < 200 && sim.Find("s0") != nullptr; ++t) {
    if (sync == "bsp") sim.StepAll();
    sim.Turn(absl::Milliseconds(100));
  }
  INFO(sim.LogText(id));
  CHECK(sim.Find("s0") == nullptr);
  CHECK(sim.clock.Now() - asked < absl::Seconds(9));
  CHECK(sim.Status(id).checkpoint() != "");
  sim.RunJob(id);
  CheckExact(&sim, id, 12);
}

TEST_CASE("Moves: a new server takes its share; either side may die half-way", "[scheduler][unit]") {
  const std::string sync = GENERATE("asp", "bsp");
  const std::string dies = GENERATE("nobody", "s0", "new");
  SimCluster sim;
  sim.splits = 20;
  AddFleet(&sim, 2, 1, 2);
  const uint64_t id = sim.Submit(SimJob(sync));
  TrainTo(&sim, id, 3);
  if (dies != "nobody") {
    sim.Find("s0")->stuck.insert(Task::MOVE_PARTITIONS);
    sim.Find("s1")->stuck.insert(Task::MOVE_PARTITIONS);
  }
  sim.Add(SERVER, "new");
  for (int t = 0; t < 100; ++t) {
    if (t % 10 == 0) sim.StepAll();
    sim.Turn();
  }
  INFO(sim.LogText(id));
  REQUIRE(sim.Status(id).state() == RUNNING);
  if (dies == "nobody") {
    CHECK(OwnedBy(&sim, id) == std::map<std::string, int>{{"new", 2}, {"s0", 3}, {"s1", 3}});
  } else {
    CHECK(sim.Status(id).partitions_moving() > 0);
    sim.Kill(sim.Find(dies));
    Bury(&sim);
    for (const auto& process : sim.processes) process->stuck.clear();
  }
  sim.RunJob(id);
  CheckExact(&sim, id, 40);
}

TEST_CASE("Replicas: backups on other servers take over, and new ones are made", "[scheduler][unit]") {
  SimCluster sim;
  AddFleet(&sim, 3, 2, 2);
  Job job = SimJob("ssp");
  job.set_replicas(2);
  const uint64_t id = sim.Submit(job);
  TrainTo(&sim, id, 3);
  for (int t = 0; t < 5; ++t) sim.Turn();
  CHECK(sim.Status(id).partitions_without_backup() == 0);
  const JobView view = sim.View(*sim.Find("w0")).jobs(0);
  REQUIRE(view.backup_size() == 8);
  for (int p = 0; p < 8; ++p) {
    CHECK(view.backup(p) != 0);
    CHECK(view.backup(p) != view.owner(p) + 1);
  }
  TrainTo(&sim, id, 6);
  sim.Kill(sim.Find("s2"));
  Bury(&sim);
  INFO(sim.LogText(id));
  CHECK_THAT(sim.LogText(id), Contains("partitions go to their backups"));
  CHECK(sim.Status(id).partitions_restoring() == 0);
  CHECK(sim.Status(id).partitions_without_backup() == 0);
  CHECK(sim.Find("s0")->done[Task::RESTORE_PARTITIONS] == 0);
  sim.RunJob(id);
  CheckExact(&sim, id, 12);
  CHECK(sim.Status(id).recoveries(0).splits_again() == 0);
}

TEST_CASE("Replicas: a backup that fails is taken out of the map and tried again", "[scheduler][unit]") {
  SimCluster sim;
  AddFleet(&sim, 2, 1, 1);
  sim.Find("s0")->failing[Task::ADD_BACKUP] = "no memory";
  Job job = SimJob("asp");
  job.set_replicas(2);
  const uint64_t id = sim.Submit(job);
  TrainTo(&sim, id, 1);
  INFO(sim.LogText(id));
  CHECK(sim.Status(id).partitions_without_backup() == 4);
  CHECK_THAT(sim.LogText(id), Contains("server s0 cannot copy 4 partitions to server s1") && Contains("no memory"));
  sim.Find("s0")->failing.clear();
  Rest(&sim, absl::Seconds(3));
  CHECK(sim.Status(id).partitions_without_backup() == 0);
  sim.RunJob(id);
  CheckExact(&sim, id, 12);
}

TEST_CASE("Resume: a job goes on from a checkpoint", "[scheduler][unit]") {
  const std::string sync = GENERATE("asp", "bsp");
  const std::string from = GENERATE("latest", "/ckpt/ckpt-00000001");
  SimCluster calm;
  AddFleet(&calm, 1, 1, 1);
  const uint64_t undisturbed = calm.Submit(SimJob(sync));
  REQUIRE(calm.RunJob(undisturbed).state() == SUCCEEDED);
  SimCluster sim;
  AddFleet(&sim, 2, 1, 1);
  const uint64_t nothing = sim.Submit(Saved(sync), "latest");
  for (int t = 0; t < 20; ++t) sim.Turn();
  CHECK(sim.Status(nothing).state() == FAILED);
  CHECK_THAT(sim.Status(nothing).reason(), Contains("holds no checkpoint"));
  const uint64_t first = sim.Submit(Saved(sync));
  TrainTo(&sim, first, 5);
  JobRef ref;
  ref.set_job(first);
  Ask(sim.scheduler.get(), &Scheduler::Cancel, ref);
  for (int t = 0; t < 200 && sim.Status(first).state() == RUNNING; ++t) {
    sim.StepAll();
    sim.Turn();
  }
  REQUIRE(sim.Status(first).checkpoint() == "/ckpt/ckpt-00000001");
  sim.Add(SERVER, "s2");
  const uint64_t id = sim.Submit(Saved(sync), from);
  sim.RunJob(id);
  CheckExact(&sim, id, 12);
  CHECK(sim.Status(id).checkpoint() == "/ckpt/ckpt-00000002");
  CHECK_THAT(sim.LogText(id), Contains("done in all partitions: ") && !Contains("done in all partitions: 0"));
  if (sync == "bsp") CHECK(Histories(sim, id) == Histories(calm, undisturbed));
}

TEST_CASE("Recovery: what does not fit the sync mode is refused at submit", "[scheduler][unit]") {
  SimCluster sim;
  const auto refused = [&](Job job) {
    SubmitRequest request;
    *request.mutable_job() = std::move(job);
    return std::string((*Ask(sim.scheduler.get(), &Scheduler::Submit, request))->status().message());
  };
  Job bsp = SimJob("bsp"), asp = SimJob("asp");
  bsp.set_recovery(Job::CATCH_UP);
  asp.set_recovery(Job::ROLLBACK);
  CHECK_THAT(refused(bsp), Contains("recovery: catch_up is for asp and ssp"));
  CHECK_THAT(refused(asp), Contains("recovery: rollback is for bsp"));
  bsp.set_recovery(Job::ROLLBACK);
  bsp.set_replicas(2);
  CHECK_THAT(refused(bsp), Contains("replicas: 2 copies are for asp and ssp"));
}

}  // namespace
}  // namespace shoal
