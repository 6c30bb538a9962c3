// Random interleavings of everything that can happen to a job, and threads that really run at once.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <iostream>
#include <string>
#include <thread>

#include "absl/strings/numbers.h"
#include "base/random.h"
#include "scheduler/sim_test_util.h"

namespace shoal {
namespace {

constexpr size_t kMaxServers = 4;

struct Storm {
  SimCluster* sim;
  Random* random;
  bool durable = false;  // the scheduler may be restarted
  int workers = 0, servers = 0, kills = 0, drains = 0, restarts = 0;
};

std::string Numbered(const char* letter, uint64_t number) { return letter + std::to_string(number); }

void WorkerStep(Storm* storm, SimProcess* process) {
  SimCluster* const sim = storm->sim;
  const uint32_t t = static_cast<uint32_t>(storm->random->Below(process->threads.size()));
  SimThread& thread = process->threads[t];
  const uint64_t action = storm->random->Below(12);
  if (action < 3) {
    sim->TakeReply(&thread);
  } else if (action < 4 && thread.asked == nullptr) {
    sim->AskWork(process, t, storm->random->Below(2) == 0 ? 0 : 100);
  } else if (action < 5 && thread.asked != nullptr) {
    sim->Repeat(process, t);  // the reply was lost
  } else if (action < 6) {
    sim->Look(process);
  } else if (!thread.held.empty()) {
    sim->Work(process, t, storm->random->Below(thread.held.size()));
  } else {
    sim->StepThread(process, t);
  }
}

// Views, tasks and results travel one by one.
void TaskStep(Storm* storm, SimProcess* process) {
  switch (storm->random->Below(4)) {
    case 0:
      storm->sim->Look(process);
      break;
    case 1:
      storm->sim->StartTasks(process);
      break;
    case 2:
      storm->sim->SendResults(process);
      break;
    default:
      storm->sim->DoTasks(process);
  }
}

size_t CountServers(const SimCluster& sim) {
  size_t count = 0;
  for (const auto& process : sim.processes) count += process->role == SERVER;
  return count;
}

// Somebody dies, hangs, leaves, comes or comes back.
void MemberStep(Storm* storm, SimProcess* process) {
  SimCluster* const sim = storm->sim;
  Random* const random = storm->random;
  const uint64_t kind = random->Below(10);
  if (kind < 3) {
    ++storm->kills;
    sim->Kill(process, random->Below(2) == 0);
  } else if (kind < 4) {
    const bool hurry = random->Below(2) == 0;
    storm->drains += sim->Drain(process->name, hurry ? absl::Milliseconds(500) : absl::ZeroDuration()).ok();
  } else if (kind < 7 && storm->workers < 60) {
    // Half of them come back under the name of one that died, or that even lives.
    const std::string name = Numbered("w", random->Below(2) == 0 ? storm->workers : random->Below(storm->workers));
    if (SimProcess* const older = sim->Find(name)) sim->Kill(older, random->Below(2) == 0);
    sim->Add(WORKER, name, 1 + static_cast<uint32_t>(random->Below(3)));
    ++storm->workers;
  } else if (kind < 9 && storm->servers < 40 && CountServers(*sim) < kMaxServers) {
    const std::string name = Numbered("s", random->Below(2) == 0 ? storm->servers : random->Below(storm->servers));
    if (SimProcess* const older = sim->Find(name)) sim->Kill(older, random->Below(2) == 0);
    sim->Add(SERVER, name);
    ++storm->servers;
  } else if (storm->durable && random->Below(3) == 0) {
    ++storm->restarts;
    sim->Restart();
    for (const auto& other : sim->processes) {
      for (SimThread& thread : other->threads) thread.asked = nullptr;  // unanswered for ever: asked anew
    }
  }
}

void ZombieStep(Storm* storm) {
  SimCluster* const sim = storm->sim;
  if (sim->killed.empty()) return;
  SimProcess* const zombie = sim->killed[storm->random->Below(sim->killed.size())].get();
  for (uint32_t t = 0; t < zombie->threads.size(); ++t) {
    if (!zombie->threads[t].held.empty()) sim->Work(zombie, t, 0);
    sim->AskWork(zombie, t);
    sim->TakeReply(&zombie->threads[t]);
  }
}

// One random event.
void Step(Storm* storm) {
  SimCluster* const sim = storm->sim;
  Random* const random = storm->random;
  const uint64_t kind = random->Below(200);
  if (sim->processes.empty()) {
    sim->Add(WORKER, Numbered("w", storm->workers++), 1);
    return;
  }
  SimProcess* const process = sim->processes[random->Below(sim->processes.size())].get();
  if (kind < 110) {
    if (process->role == WORKER) WorkerStep(storm, process);
  } else if (kind < 160) {
    TaskStep(storm, process);
  } else if (kind < 175) {
    sim->Heartbeat(process);
  } else if (kind < 195) {
    for (const auto& other : sim->processes) sim->Heartbeat(other.get());
    sim->clock.Advance(absl::Milliseconds(random->Below(100)));
    sim->scheduler->Tick();
  } else if (kind < 197) {
    ZombieStep(storm);
  } else if (random->Below(3) == 0) {
    MemberStep(storm, process);
  }
}

uint64_t FromEnvironment(const char* name, uint64_t otherwise) {
  const char* const text = std::getenv(name);
  uint64_t value = otherwise;
  return text != nullptr && absl::SimpleAtoi(text, &value) ? value : otherwise;
}

Job RandomJob(const std::string& sync, Random* random) {
  Job job = SimJob(sync, 3);
  if (random->Below(3) > 0) {
    job.mutable_checkpoint()->set_dir("/ckpt");
    job.mutable_checkpoint()->set_every(random->Below(2) * 300);
  }
  if (sync != "bsp") job.set_replicas(static_cast<uint32_t>(1 + random->Below(2)));
  return job;
}

// What a bsp job comes to when nothing happens to it.
std::map<uint32_t, uint64_t> CalmHistories(uint64_t splits) {
  SimCluster sim;
  sim.splits = splits;
  AddFleet(&sim, 1, 1, 1);
  const uint64_t id = sim.Submit(SimJob("bsp", 3));
  REQUIRE(sim.RunJob(id).state() == SUCCEEDED);
  std::map<uint32_t, uint64_t> histories;
  for (const auto& [p, partition] : sim.data.at(id).partitions) histories[p] = partition.history;
  return histories;
}

TEST_CASE("Scheduler: under any interleaving each split of each pass is applied once to every partition",
          "[scheduler][unit]") {
  const uint64_t first = FromEnvironment("SHOAL_TEST_SEED", 1), seeds = FromEnvironment("SHOAL_TEST_SEEDS", 48);
  std::cout << "seeds from " << first << "\n";
  int early = 0, kills = 0, drains = 0, restarts = 0;
  std::map<std::string, int> seen;
  std::map<std::string, uint64_t> answers;
  for (uint64_t seed = first; seed < first + seeds; ++seed) {
    Random random({seed});
    const bool durable = seed % 4 == 0;
    SimCluster sim(durable ? TemporaryFile("storm.db") : "");
    sim.splits = 1 + random.Below(12);
    sim.eval_splits = random.Below(3);
    Storm storm{&sim, &random, durable};
    for (; storm.servers < 1 + static_cast<int>(seed % 3); ++storm.servers) {
      sim.Add(SERVER, Numbered("s", storm.servers));
    }
    for (; storm.workers < 2; ++storm.workers) sim.Add(WORKER, Numbered("w", storm.workers), 2);
    const std::string sync = seed % 3 == 0 ? "asp" : seed % 3 == 1 ? "bsp" : "ssp";
    const uint64_t id = sim.Submit(RandomJob(sync, &random)), other = sim.Submit(SimJob("asp", 1));
    for (int step = 0; step < 6000 && sim.Status(id).state() < SUCCEEDED; ++step) Step(&storm);
    early += sim.Status(id).state() == SUCCEEDED;
    sim.Add(WORKER, "last", 2);  // whatever happened, a calm fleet gets it done
    sim.Add(SERVER, "last-server");
    for (uint64_t job : {id, other}) {
      const JobStatus status = sim.RunJob(job, 8000);
      INFO("seed " << seed << ", " << sync << ": " << status.ShortDebugString() << "\n" << sim.LogText(job));
      REQUIRE(status.state() == SUCCEEDED);
      const uint64_t splits = sim.splits * (job == id ? 3 : 1);
      CHECK(status.splits_done() == splits);
      CHECK(status.examples() <= splits * SimCluster::kRecords);
      REQUIRE(AllDone(sim, job, splits));
      for (const char* what :
           {"given out again", "they are leased again", "go back to", "to their backups", "have moved"}) {
        seen[what] += sim.LogText(job).find(what) != std::string::npos;
      }
    }
    if (sync == "bsp") {
      std::map<uint32_t, uint64_t> histories;
      for (const auto& [p, partition] : sim.data.at(id).partitions) histories[p] = partition.history;
      INFO("seed " << seed << "\n" << sim.LogText(id));
      REQUIRE(histories == CalmHistories(sim.splits));
    }
    kills += storm.kills;
    drains += storm.drains;
    restarts += storm.restarts;
    for (const auto& [answer, count] : sim.answers) answers[answer] += count;
  }
  std::cout << early << " jobs ended in the storm; kills " << kills << ", drains " << drains << ", scheduler restarts "
            << restarts << "\n";
  for (const auto& [what, count] : seen) std::cout << "  \"" << what << "\" in " << count << " logs\n";
  for (const auto& [answer, count] : answers) std::cout << "  " << answer << " " << count << "\n";
  // The storm was one.
  if (seeds < 48) return;
  CHECK(kills > 50);
  CHECK(drains > 5);
  CHECK(restarts > 5);
  for (const char* what :
       {"given out again", "they are leased again", "go back to", "to their backups", "have moved"}) {
    CHECK(seen[what] > 0);
  }
  for (const char* answer : {"FENCED", "DUPLICATE", "STALE_MAP"}) CHECK(answers[answer] > 0);
}

TEST_CASE("Scheduler: calls from several threads at once", "[scheduler][unit]") {
  SimCluster sim;
  sim.Add(SERVER, "s");
  SimProcess* const worker = sim.Add(WORKER, "w", 4);
  const uint64_t id = sim.Submit(SimJob("asp"));
  for (int t = 0; t < 5; ++t) sim.Turn();
  std::vector<uint64_t> granted(4);
  std::vector<std::thread> threads;
  for (uint32_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      NextWorkRequest request;
      request.mutable_identity()->set_process(worker->id);
      request.set_thread(t);
      for (int i = 0; i < 200; ++i) {
        request.set_sequence(request.sequence() + 1);
        const auto answer = Ask(sim.scheduler.get(), &Scheduler::NextWork, request);
        request.clear_completed();
        if (!answer->has_value() || !(*answer)->ok() || (*answer)->value().kind() != NextWorkReply::GRANT) continue;
        const Grant& grant = (*answer)->value().grant();
        if (!grant.eval()) ++granted[t];
        request.mutable_completed()->set_job(grant.job());
        request.mutable_completed()->set_run(grant.run());
        request.mutable_completed()->set_lease(grant.lease());
        request.mutable_completed()->set_finished(true);
      }
    });
  }
  threads.emplace_back([&] {
    for (int i = 0; i < 200; ++i) {
      sim.Heartbeat(worker);
      sim.scheduler->Tick();
      sim.Status(id);
    }
  });
  for (std::thread& thread : threads) thread.join();
  CHECK(granted[0] + granted[1] + granted[2] + granted[3] == 12);
  CHECK(sim.Status(id).splits_done() == 12);
}

}  // namespace
}  // namespace shoal
