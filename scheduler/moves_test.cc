// Where partitions come to lie, and backups that cannot be reached.
#include <algorithm>
#include <catch2/catch.hpp>
#include <map>

#include "base/random.h"
#include "scheduler/sim_test_util.h"

namespace shoal {
namespace {

using Catch::Contains;

Job Wide(const std::string& sync, uint32_t partitions) {
  Job job = SimJob(sync);
  job.set_partitions(partitions);
  return job;
}

// Partitions that were moved, over all servers that are there: how often each.
std::map<uint32_t, int> Moved(const SimCluster& sim) {
  std::map<uint32_t, int> moved;
  for (const auto& process : sim.processes) {
    for (const Task& task : process->tasks) {
      for (uint32_t p : task.partitions()) moved[p] += task.kind() == Task::MOVE_PARTITIONS ? 1 : 0;
    }
  }
  for (auto it = moved.begin(); it != moved.end();) it = it->second == 0 ? moved.erase(it) : std::next(it);
  return moved;
}

TEST_CASE("Moves: partitions stay where they are while reports of load come at different instants",
          "[scheduler][unit]") {
  const std::string sync = GENERATE("asp", "bsp");
  SimCluster sim;
  AddFleet(&sim, 1, 1, 1);
  sim.Turn(absl::Seconds(1));
  sim.Add(SERVER, "s1");  // a second before the job starts
  sim.Turn(absl::Seconds(1));
  int beat = 0;
  // Tables that grow tenfold between two heartbeats, which come one after the other.
  sim.load = [&](const SimProcess& process, uint32_t) {
    return uint64_t{4} << (20 + 3 * std::min(5, (beat + (process.name == "s0" ? 1 : 0)) / 2));
  };
  const uint64_t id = sim.Submit(Wide(sync, 32));
  GetWork(&sim, sim.Find("w0"));
  for (; beat < 200; ++beat) sim.Turn(absl::Milliseconds(100));
  CHECK(sim.Status(id).state() == RUNNING);
  CHECK(Moved(sim).empty());
  // A server that joins gets its share, once.
  sim.Add(SERVER, "s2");
  Rest(&sim, absl::Seconds(20));
  const std::map<uint32_t, int> moved = Moved(sim);
  CHECK((moved.size() >= 8 && moved.size() <= 12));
  for (const auto& [p, times] : moved) CHECK(times == 1);
}

TEST_CASE("Moves: placement comes to rest, and moves nothing twice without a cause", "[scheduler][property]") {
  for (uint64_t seed = 1; seed <= 24; ++seed) {
    Random random({seed});
    SimCluster sim;
    AddFleet(&sim, 1 + static_cast<int>(random.Next() % 3), 1, 1);
    std::map<uint32_t, uint64_t> bytes;
    for (uint32_t p = 0; p < 48; ++p) bytes[p] = random.Next() % (uint64_t{1} << (16 + random.Next() % 16));
    // Growth differs by some percent between reports.
    sim.load = [&](const SimProcess&, uint32_t p) { return bytes[p] + bytes[p] / 100 * (random.Next() % 5); };
    const uint64_t id = sim.Submit(Wide(seed % 3 == 0 ? "bsp" : "asp", 48));
    GetWork(&sim, sim.Find("w0"));
    Rest(&sim, absl::Seconds(30));
    std::map<uint32_t, int> before;
    for (int change = 0; change < 3; ++change) {
      INFO("seed " << seed << ", change " << change << "\n" << sim.LogText(id));
      std::map<uint32_t, int> moved = Moved(sim);
      for (const auto& [p, times] : moved) CHECK(times - before[p] <= 1);
      before = moved;
      Rest(&sim, absl::Seconds(30));
      CHECK(Moved(sim) == before);  // at rest
      if (change % 2 == 0) {
        sim.Add(SERVER, "new" + std::to_string(change));
      } else {
        bytes[static_cast<uint32_t>(random.Next() % 48)] += uint64_t{1} << 33;
      }
      Rest(&sim, absl::Seconds(60));
    }
    CHECK(sim.Status(id).state() == RUNNING);
  }
}

TEST_CASE("Backup: one that only its primary cannot reach is replaced, and status says so", "[scheduler][unit]") {
  const bool third = GENERATE(true, false);
  SimCluster sim;
  AddFleet(&sim, third ? 3 : 2, 1, 1);
  Job job = SimJob("asp");
  job.set_replicas(2);
  const uint64_t id = sim.Submit(job);
  GetWork(&sim, sim.Find("w0"));
  Rest(&sim, absl::Seconds(3));
  REQUIRE(sim.Status(id).partitions_without_backup() == 0);
  SimProcess* const s0 = sim.Find("s0");
  const auto backup_of = [&](int p) -> std::string {  // of a partition of s0
    const JobView view = sim.View(*s0).jobs(0);
    const bool mine = view.servers(static_cast<int>(view.owner(p))).process() == s0->id;
    return !mine || view.backup(p) == 0 ? "" : view.servers(static_cast<int>(view.backup(p)) - 1).name();
  };
  std::string backup;
  for (int p = 0; p < 8; ++p) backup = std::max(backup, backup_of(p));
  REQUIRE(!backup.empty());
  SimProcess* const other = sim.Find(backup);
  const auto backups_there = [&] {
    int count = 0;
    for (int p = 0; p < 8; ++p) count += backup_of(p) == backup;
    return count;
  };
  Unreachable entry;
  entry.set_server(other->id);
  entry.set_error("connection refused");
  for (uint32_t seconds = 1; seconds <= 3; ++seconds) {
    entry.set_seconds(seconds);
    s0->unreachable = {entry};
    sim.Heartbeat(s0);
    CHECK((backups_there() > 0) == (seconds < 3));  // the deadline
  }
  const ClusterStatus status = (*Ask(sim.scheduler.get(), &Scheduler::Status, Empty()))->value();
  REQUIRE(status.processes(0).unreachable_size() == 1);
  CHECK(status.processes(0).unreachable(0) == "server " + backup + " for 3 s: connection refused");
  CHECK_THAT(sim.LogText(id),
             Contains("server s0 cannot reach its backup, server " + backup + ", for 3 s (connection refused)"));
  s0->failing[Task::ADD_BACKUP] = "";
  s0->unreachable.clear();
  if (third) {
    s0->failing.clear();
    Rest(&sim, absl::Seconds(3));
    CHECK(backups_there() == 0);
    CHECK(sim.Status(id).partitions_without_backup() == 0);
    return;
  }
  Rest(&sim, absl::Seconds(1));
  CHECK_THAT(sim.Status(id).reason(),
             Contains("partitions have no backup: server s0 cannot reach server s1: connection"));
  s0->failing.clear();  // it heals
  Rest(&sim, absl::Seconds(10));
  CHECK(sim.Status(id).partitions_without_backup() == 0);
  CHECK(sim.Status(id).reason().empty());
}

// The worker says that it has not reached the server for 2 s.
void LoseSight(SimCluster* sim, const std::string& worker, const std::string& server) {
  Unreachable entry;
  entry.set_server(sim->Find(server)->id);
  entry.set_seconds(2);
  entry.set_error("no route");
  sim->Find(worker)->unreachable = {entry};
  sim->Turn();
}

TEST_CASE("Status: a worker that cannot reach a server is named", "[scheduler][unit]") {
  SimCluster sim;
  AddFleet(&sim, 1, 1, 1);
  const uint64_t id = sim.Submit(SimJob("asp"));
  GetWork(&sim, sim.Find("w0"));
  LoseSight(&sim, "w0", "s0");
  const auto unreachable = [&] {
    return (*Ask(sim.scheduler.get(), &Scheduler::Status, Empty()))->value().processes(1).unreachable();
  };
  REQUIRE(unreachable().size() == 1);
  CHECK(unreachable()[0] == "server s0 for 2 s: no route");
  CHECK_THAT(sim.LogText(id), Contains("worker w0 cannot reach server s0 for 2 s: no route"));
  sim.Find("w0")->unreachable.clear();
  sim.Turn();
  CHECK(unreachable().empty());
}

TEST_CASE("Status: nobody is said to be out of reach of who is gone", "[scheduler][unit]") {
  SimCluster sim;
  AddFleet(&sim, 2, 1, 1);
  sim.Submit(SimJob("asp"));
  GetWork(&sim, sim.Find("w0"));
  LoseSight(&sim, "w0", "s0");
  const auto named = [&] {
    int count = 0;
    const ClusterStatus status = (*Ask(sim.scheduler.get(), &Scheduler::Status, Empty()))->value();
    for (const ProcessStatus& process : status.processes()) count += process.unreachable_size();
    return count;
  };
  CHECK(named() == 1);
  sim.Kill(sim.Find("s0"));
  for (int i = 0; i < 100; ++i) sim.Turn(absl::Milliseconds(300));
  CHECK(named() == 0);
}

TEST_CASE("Drain: the log tells the grace that was asked for, and it is kept", "[scheduler][unit]") {
  SimCluster sim;
  AddFleet(&sim, 2, 1, 1);
  const uint64_t id = sim.Submit(SimJob("asp"));  // without checkpoints, so that its moves have all of the grace
  TrainTo(&sim, id, 3);
  sim.Find("s0")->stuck.insert(Task::MOVE_PARTITIONS);
  REQUIRE(sim.Drain("s0", absl::Seconds(3)).ok());
  const absl::Duration asked = sim.clock.Now();
  CHECK_THAT(sim.LogText(id), Contains("server s0 is draining and goes in 3s: test"));
  sim.Turn(absl::Milliseconds(500));
  REQUIRE(sim.Drain("s0", absl::Seconds(1)).ok());
  CHECK_THAT(sim.LogText(id), Contains("server s0 is draining and goes in 1s: test"));
  REQUIRE(sim.Drain("s0", absl::Seconds(10)).ok());  // the shorter one counts
  CHECK_THAT(sim.LogText(id), !Contains("goes in 10s"));
  while (sim.Find("s0") != nullptr && sim.clock.Now() - asked < absl::Seconds(10)) sim.Turn(absl::Milliseconds(50));
  CHECK(sim.clock.Now() - asked >= absl::Milliseconds(1500));
  CHECK(sim.clock.Now() - asked <= absl::Milliseconds(1700));
  sim.RunJob(id);
  CheckExact(&sim, id, 12);
}

}  // namespace
}  // namespace shoal
