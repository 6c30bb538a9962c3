// Restarts of the scheduler, on pretended servers and workers.
#include <catch2/catch.hpp>

#include "absl/strings/str_cat.h"
#include "scheduler/sim_test_util.h"

namespace shoal {
namespace {

using Catch::Contains;

TEST_CASE("Recovery: what a job counted and went through survives restarts of the scheduler", "[scheduler][unit]") {
  const std::string sync = GENERATE("asp", "ssp", "bsp");
  const int every = GENERATE(5, 12);  // turns between restarts
  SimCluster sim(TemporaryFile("life.db"));
  sim.splits = 40;
  AddFleet(&sim, 2, 2, 2);
  const uint64_t id = sim.Submit(Saved(sync, 500));
  TrainTo(&sim, id, 8);
  sim.Kill(sim.Find("s1"));
  for (int t = 0; t < 300 && sim.Status(id).recoveries_in_all() == 0; ++t) sim.Turn(absl::Milliseconds(50));
  REQUIRE(sim.Status(id).recoveries_in_all() == 1);
  const std::string what = sim.Status(id).recoveries(0).what();
  REQUIRE(sim.Status(id).state() == RUNNING);
  for (int t = 0; sim.Status(id).state() < SUCCEEDED && t < 8; ++t) {
    Rest(&sim, absl::Seconds(1.5));  // it is stored
    const uint64_t before = sim.Status(id).examples();
    sim.Restart();
    CHECK(sim.Status(id).recoveries_in_all() == 1);
    if (sim.Status(id).state() < SUCCEEDED) CHECK(sim.Status(id).examples() == before);
    sim.RunJob(id, every);
  }
  sim.RunJob(id);
  CheckExact(&sim, id, 80);
  sim.Restart();
  const JobStatus status = sim.Status(id);
  CHECK(status.examples() == 80 * SimCluster::kRecords);
  REQUIRE(status.recoveries_size() == 1);
  CHECK(status.recoveries(0).what() == what);
  CHECK_THAT(sim.LogText(id), Contains("submitted as job") && Contains(what) &&
                                  Contains("the scheduler was restarted") && Contains("state SUCCEEDED"));
}

TEST_CASE("Recovery: the scheduler is restarted in the middle of it", "[scheduler][unit]") {
  const std::string sync = GENERATE("asp", "bsp");
  SimCluster sim(TemporaryFile(absl::StrCat("recovery-", sync, ".db")));
  AddFleet(&sim, 3, 1, 2);
  Job job = Saved(sync, 300);
  if (sync == "asp") job.set_replicas(2);
  const uint64_t id = sim.Submit(job);
  TrainTo(&sim, id, 5);
  const Task::Kind stuck = sync == "asp" ? Task::RESTORE_PARTITIONS : Task::PREPARE_JOB;
  for (const char* name : {"s0", "s1"}) sim.Find(name)->stuck.insert(stuck);
  if (sync == "asp") sim.Find("s2")->stuck.insert(Task::ADD_BACKUP);
  sim.Kill(sim.Find("s2"));
  Bury(&sim);
  sim.Restart();
  for (const auto& process : sim.processes) process->stuck.clear();
  sim.RunJob(id);
  CheckExact(&sim, id, 12);
}

TEST_CASE("Recovery: the scheduler finds a server gone after its own restart", "[scheduler][unit]") {
  const std::string sync = GENERATE("asp", "bsp");
  SimCluster sim(TemporaryFile(absl::StrCat("recovery-gone-", sync, ".db")));
  AddFleet(&sim, 2, 1, 2);
  const uint64_t id = sim.Submit(Saved(sync));
  TrainTo(&sim, id, 5);
  sim.Restart();
  sim.Kill(sim.Find("s1"));
  Bury(&sim);
  sim.RunJob(id);
  CheckExact(&sim, id, 12);
}

TEST_CASE("Recovery: after a restart of the scheduler status says what it waits for, and what is trained again",
          "[scheduler][unit]") {
  const bool server_too = GENERATE(false, true);
  const std::string sync = GENERATE("asp", "bsp");
  CAPTURE(server_too, sync);
  SimCluster sim(TemporaryFile("recovering.db"));
  AddFleet(&sim, 2, 1, 2);
  const uint64_t id = sim.Submit(Saved(sync));
  TrainTo(&sim, id, 7);
  Rest(&sim, absl::Seconds(1.5));  // it is stored
  const JobStatus before = sim.Status(id);
  sim.Restart();
  // Nobody has been heard yet.
  CHECK_THAT(sim.Status(id).reason(), Contains("recovering") && Contains("owners of all partitions"));
  CHECK(sim.Status(id).splits_done() == before.splits_done());
  CHECK(sim.Status(id).pass() == before.pass());
  CHECK(sim.Status(id).examples() == before.examples());
  if (server_too) {
    sim.Kill(sim.Find("s1"));
    sim.Add(SERVER, "s1");
  }
  Rest(&sim, absl::Seconds(1));
  INFO(sim.LogText(id));
  CHECK(sim.Status(id).reason() == "");
  if (server_too) {
    CHECK(sim.Status(id).splits_done() == 0);  // s1 has kept nothing, and there is no checkpoint
    if (sync == "asp") {
      CHECK_THAT(sim.LogText(id),
                 Contains(absl::StrCat("trained again, though counted before the restart: ", before.splits_done(),
                                       " splits that were handed in, ", before.examples(), " examples; server s1")) &&
                     Contains("go back to nothing, as there is no checkpoint"));
      CHECK(sim.Status(id).recoveries(0).splits_again() == before.splits_done());
    } else {
      CHECK_THAT(sim.LogText(id), Contains("all partitions go back to the beginning"));
    }
  } else {
    CHECK(sim.Status(id).splits_done() == before.splits_done());
    CHECK_THAT(sim.LogText(id), !Contains("trained again"));
  }
  sim.RunJob(id);
  CheckExact(&sim, id, 12);
}

}  // namespace
}  // namespace shoal
