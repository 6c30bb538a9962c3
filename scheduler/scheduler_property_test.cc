// Random interleavings of everything that can happen to a job, and threads that really run at once.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <iostream>
#include <string>
#include <thread>

#include "absl/strings/numbers.h"
#include "base/random.h"
#include "scheduler/sim_cluster.h"

namespace shoal {
namespace {

// One random event.
void Step(SimCluster* sim, Random* random, int* workers) {
  SimProcess* const process = sim->processes[random->Below(sim->processes.size())].get();
  const uint64_t kind = random->Below(100);
  if (kind < 60 && process->role == WORKER) {
    const uint32_t t = static_cast<uint32_t>(random->Below(process->threads.size()));
    SimThread& thread = process->threads[t];
    const uint64_t action = random->Below(10);
    if (action < 3) {
      sim->TakeReply(&thread);
    } else if (action < 4 && thread.asked == nullptr) {
      sim->AskWork(process, t, random->Below(2) == 0 ? 0 : 100);
    } else if (action < 5 && thread.asked != nullptr) {
      sim->Repeat(process, t);  // the reply was lost
    } else if (!thread.held.empty()) {
      sim->Work(process, t, random->Below(thread.held.size()));
    } else {
      sim->StepThread(process, t);
    }
  } else if (kind < 75) {
    sim->DoTasks(process);
  } else if (kind < 85) {
    sim->Heartbeat(process);
  } else if (kind < 95) {
    for (const auto& other : sim->processes) sim->Heartbeat(other.get());
    sim->clock.Advance(absl::Milliseconds(random->Below(100)));
    sim->scheduler->Tick();
  } else if (kind < 96 && process->role == WORKER) {
    sim->Kill(process);  // silent for ever, but its thread may still push
  } else if (kind < 97 && *workers < 60) {
    // Half of them come back under the name of one that died, or that even lives.
    const std::string name = "w" + std::to_string(random->Below(2) == 0 ? *workers : random->Below(*workers));
    SimProcess* const older = sim->Find(name);
    if (older != nullptr) sim->Kill(older);
    sim->Add(WORKER, name, 1 + static_cast<uint32_t>(random->Below(3)));
    ++*workers;
  } else if (kind < 98 && !sim->killed.empty()) {
    SimProcess* const zombie = sim->killed[random->Below(sim->killed.size())].get();
    for (uint32_t t = 0; t < zombie->threads.size(); ++t) {
      if (!zombie->threads[t].held.empty()) sim->Work(zombie, t, 0);
      sim->AskWork(zombie, t);
      sim->TakeReply(&zombie->threads[t]);
    }
  } else if (kind < 99 && random->Below(20) == 0) {
    sim->parted = true;
  }
}

uint64_t FirstSeed() {
  const char* const text = std::getenv("SHOAL_TEST_SEED");
  uint64_t seed = 1;
  if (text != nullptr && !absl::SimpleAtoi(text, &seed)) seed = 1;
  return seed;
}

TEST_CASE("Scheduler: under any interleaving each split of each pass is done once in all partitions",
          "[scheduler][unit]") {
  const uint64_t first = FirstSeed();
  std::cout << "seeds from " << first << "\n";
  int ended_early = 0, leased_again = 0, audits_missed = 0;
  for (uint64_t seed = first; seed < first + 24; ++seed) {
    Random random({seed});
    SimCluster sim;
    sim.splits = 1 + random.Below(12);
    sim.eval_splits = random.Below(3);
    for (uint64_t s = 0; s < 1 + seed % 3; ++s) sim.Add(SERVER, "s" + std::to_string(s));
    int workers = 0;
    for (; workers < 2; ++workers) sim.Add(WORKER, "w" + std::to_string(workers), 2);
    const std::string sync = seed % 3 == 0 ? "asp" : seed % 3 == 1 ? "bsp" : "ssp";
    const uint64_t id = sim.Submit(SimJob(sync, 3));
    const uint64_t other = sim.Submit(SimJob("asp", 1));
    const bool may_part = sync != "bsp";
    for (int step = 0; step < 3000 && sim.Status(id).state() < SUCCEEDED; ++step) {
      Step(&sim, &random, &workers);
      sim.parted = sim.parted && may_part;
    }
    sim.parted = false;
    ended_early += sim.Status(id).state() == SUCCEEDED;
    sim.Add(WORKER, "last", 2);  // whatever happened, a calm fleet gets it done
    for (uint64_t job : {id, other}) {
      const JobStatus status = sim.RunJob(job);
      INFO("seed " << seed << ", " << sync << ": " << status.ShortDebugString() << "\n" << sim.LogText(job));
      REQUIRE(status.state() == SUCCEEDED);
      leased_again += sim.LogText(job).find("given out again") != std::string::npos;
      audits_missed += sim.LogText(job).find("audit: partitions miss") != std::string::npos;
      const uint64_t splits = sim.splits * (job == id ? 3 : 1);
      REQUIRE(status.splits_done() == splits);
      REQUIRE(status.examples() <= splits * SimCluster::kRecords);
      for (const SimData::Partition& partition : sim.data.at(job).partitions) {
        REQUIRE(partition.done.prefix() == splits);
        REQUIRE(partition.done.extra().empty());
      }
    }
  }
  // The storm was one: it ended jobs by itself, took leases away and lost finished splits.
  std::cout << ended_early << " jobs ended in it, " << leased_again << " had leases taken away, " << audits_missed
            << " had splits lost\n";
  CHECK(ended_early > 0);
  CHECK(leased_again > 5);
  CHECK(audits_missed > 0);
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
