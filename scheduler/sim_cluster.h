// A cluster of pretended servers and workers around a real Scheduler, for its tests: time stands still, nothing has a
// thread, every message is a call.
#ifndef SHOAL_SCHEDULER_SIM_CLUSTER_H_
#define SHOAL_SCHEDULER_SIM_CLUSTER_H_

#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/types/optional.h"
#include "scheduler/ledger/intersect.h"
#include "scheduler/scheduler.h"

namespace shoal {

// The answer of one call, once it has come.
template <typename Reply>
using Answered = std::shared_ptr<absl::optional<absl::StatusOr<Reply>>>;

// Makes a call whose answer is kept.
template <typename Reply, typename Request>
Answered<Reply> Ask(Scheduler* scheduler, void (Scheduler::*call)(const Request&, Scheduler::Done<Reply>),
                    const Request& request) {
  auto answer = std::make_shared<absl::optional<absl::StatusOr<Reply>>>();
  (scheduler->*call)(request, [answer](absl::StatusOr<Reply> reply) { *answer = std::move(reply); });
  return answer;
}

struct SimHeld {
  NextWorkReply reply;
  std::set<uint64_t> servers_done;  // asp, ssp
  uint64_t round = 0;               // bsp: next to contribute to
};

struct SimThread {
  uint64_t sequence = 0;
  NextWorkRequest last;
  Answered<NextWorkReply> asked;  // null: no question is open
  std::vector<SimHeld> held;
  std::deque<CompletedWork> finished;
  std::vector<NextWorkReply> got;  // all work it was ever given
};

struct SimProcess {
  uint64_t id = 0;
  std::string name;
  Role role = WORKER;
  std::string fingerprint;
  std::vector<SimThread> threads;
  std::vector<MetricSegment> segments;
  std::map<Task::Kind, std::string> failing;  // tasks that fail, with this message
  std::set<Task::Kind> stuck;                 // tasks that never end
  std::map<Task::Kind, int> done;             // tasks done
  std::vector<Task> tasks;                    // all that it did
};

// What the servers hold of one job, partition by partition.
struct SimData {
  struct Partition {
    DoneSet done;
    std::map<uint64_t, uint64_t> lease, watermark;
  };
  Job job;
  std::vector<Partition> partitions;
  uint64_t rounds_applied = 0;
  std::map<std::pair<uint64_t, uint32_t>, absl::optional<uint64_t>> contributions;  // (round, lane) -> split it ends
  std::map<uint32_t, uint64_t> finished_lanes;                                      // lane -> its rounds
};

class SimCluster {
 public:
  static constexpr uint64_t kRecords = 4;  // of every split, in two batches

  explicit SimCluster(const std::string& state_path = "");
  void Restart();  // of the scheduler

  SimProcess* Add(Role role, const std::string& name, uint32_t threads = 1, const std::string& fingerprint = "f");
  uint64_t Submit(const Job& job);
  void Heartbeat(SimProcess* process);
  void DoTasks(SimProcess* process);
  // Everybody alive beats and does tasks, time passes.
  void Turn(absl::Duration time = absl::Milliseconds(20));
  // Asks with all that the thread has to hand in and carries.
  void AskWork(SimProcess* worker, uint32_t thread, uint32_t wait_ms = 0);
  void Repeat(SimProcess* worker, uint32_t thread);  // the last question again
  void TakeReply(SimThread* thread);
  // One step of the lease: one server's partitions, or one round. False: it has to wait.
  bool Work(SimProcess* worker, uint32_t thread, size_t held);
  // Turns, and all threads ask and work, until the job has ended or `turns` are over.
  JobStatus RunJob(uint64_t job, int turns = 2000);
  void StepThread(SimProcess* worker, uint32_t thread);

  JobStatus Status(uint64_t job);
  std::string LogText(uint64_t job);
  ClusterView View(const SimProcess& process);
  void Kill(SimProcess* process);  // says nothing more, for ever
  SimProcess* Find(const std::string& name);

  FakeClock clock;
  SchedulerOptions options;
  std::unique_ptr<Scheduler> scheduler;
  std::vector<std::unique_ptr<SimProcess>> processes, killed;
  std::map<uint64_t, SimData> data;
  uint64_t splits = 6, eval_splits = 2;
  std::string newest_checkpoint;  // in the one checkpoint directory that there is
  bool parted = false;            // a split vanishes from a partition before the next report

 private:
  TaskResult DoTask(SimProcess* process, const Task& task);
  bool Fenced(const Grant& grant);  // what servers answer to a lane that is not live any more
  void WorkRound(SimData* data, SimThread* thread, size_t held);
  void ApplyRounds(SimData* data);
  void HandIn(SimThread* thread, size_t held, bool finished);
};

// A job of two passes; sync: "asp", "ssp" or "bsp".
Job SimJob(const std::string& sync, uint32_t passes = 2);

}  // namespace shoal

#endif  // SHOAL_SCHEDULER_SIM_CLUSTER_H_
