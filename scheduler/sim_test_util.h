// What tests of the scheduler do with a SimCluster.
#ifndef SHOAL_SCHEDULER_SIM_TEST_UTIL_H_
#define SHOAL_SCHEDULER_SIM_TEST_UTIL_H_

#include <catch2/catch.hpp>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "scheduler/sim_cluster.h"

namespace shoal {

// Every split of every pass was applied once to every partition.
inline bool AllDone(const SimCluster& sim, uint64_t job, uint64_t splits) {
  const SimData& data = sim.data.at(job);
  if (data.partitions.size() != data.job.partitions()) return false;
  for (const auto& [id, partition] : data.partitions) {
    if (partition.done.prefix() != splits || !partition.done.extra().empty()) return false;
    if (partition.applied.size() != splits) return false;
    for (const auto& [split, records] : partition.applied) {
      if (records != SimCluster::kRecords) return false;
    }
  }
  return true;
}

inline void AddFleet(SimCluster* sim, int servers, int workers, uint32_t threads) {
  for (int s = 0; s < servers; ++s) sim->Add(SERVER, "s" + std::to_string(s));
  for (int w = 0; w < workers; ++w) sim->Add(WORKER, "w" + std::to_string(w), threads);
}

// Turns until the thread is given work.
inline Grant GetWork(SimCluster* sim, SimProcess* worker, uint32_t thread = 0) {
  const size_t before = worker->threads[thread].got.size();
  for (int t = 0; t < 50 && worker->threads[thread].got.size() == before; ++t) {
    sim->AskWork(worker, thread);
    sim->TakeReply(&worker->threads[thread]);
    sim->Turn();
  }
  REQUIRE(worker->threads[thread].got.size() == before + 1);
  return worker->threads[thread].got.back().grant();
}

// Works until the thread holds nothing.
inline void FinishWork(SimCluster* sim, SimProcess* worker, uint32_t thread = 0) {
  for (int i = 0; i < 100 && !worker->threads[thread].held.empty(); ++i) sim->Work(worker, thread, 0);
  REQUIRE(worker->threads[thread].held.empty());
}

inline void CheckExact(SimCluster* sim, uint64_t job, uint64_t splits) {
  INFO(sim->Status(job).ShortDebugString() << "\n" << sim->LogText(job));
  REQUIRE(sim->Status(job).state() == SUCCEEDED);
  CHECK(AllDone(*sim, job, splits));
}

inline Job Saved(const std::string& sync, uint64_t every_ms = 0) {
  Job job = SimJob(sync);
  job.mutable_checkpoint()->set_dir("/ckpt");
  job.mutable_checkpoint()->set_every(every_ms);
  return job;
}

// Trains until so many splits have been handed in.
inline void TrainTo(SimCluster* sim, uint64_t job, uint64_t splits) {
  for (int t = 0; t < 2000 && sim->Status(job).splits_done() < splits; ++t) {
    sim->StepAll();
    sim->Turn();
  }
  INFO(sim->LogText(job));
  REQUIRE(sim->Status(job).state() == RUNNING);
}

// Time passes, but nobody trains.
inline void Rest(SimCluster* sim, absl::Duration time) {
  for (absl::Duration t; t < time; t += absl::Milliseconds(100)) sim->Turn(absl::Milliseconds(100));
}

// The silence after which a server is dead goes by.
inline void Bury(SimCluster* sim) { Rest(sim, absl::Seconds(4)); }

inline std::string TemporaryFile(const std::string& name) {
  const char* const dir = std::getenv("TEST_TMPDIR");
  const std::string path = std::string(dir != nullptr ? dir : "/tmp") + "/" + name;
  for (const char* suffix : {"", "-wal", "-shm"}) std::remove((path + suffix).c_str());
  return path;
}

}  // namespace shoal

#endif  // SHOAL_SCHEDULER_SIM_TEST_UTIL_H_
