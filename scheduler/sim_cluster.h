// A cluster of pretended servers and workers around a real Scheduler, for its tests: time stands still, nothing has a
// thread, every message is a call. Servers keep copies of partitions with watermarks and count what is applied; nobody
// knows more than the last view that it has looked at.
#ifndef SHOAL_SCHEDULER_SIM_CLUSTER_H_
#define SHOAL_SCHEDULER_SIM_CLUSTER_H_

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/optional.h"
#include "proto/checkpoint.pb.h"
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

// One copy of a partition.
struct SimPartition {
  DoneSet done;
  std::map<uint64_t, uint64_t> lease, watermark;  // by split over all passes
  std::map<uint64_t, uint64_t> applied;           // records by split, counted apart from the watermarks
  uint64_t history = 0;                           // bsp: hash of what was applied, in order
};

struct SimContribution {
  uint64_t split = 0, lease = 0, begin = 0, end = 0;
  bool last = false;
};

// A job on a server.
struct SimServerJob {
  Job job;
  JobView view;                              // newest one of its run
  std::map<uint32_t, SimPartition> served;   // while the view gives them to the server
  std::map<uint32_t, SimPartition> standby;  // arrived, or a backup
  std::map<uint32_t, uint64_t> came_from;    // of standby: the process
  std::set<uint32_t> frozen;                 // of served: handed over
  std::map<uint32_t, uint64_t> backups;      // of served: the process that each push is also sent to
  uint64_t rounds_applied = 0;               // bsp
  absl::optional<uint64_t> cut;              // bsp: rounds from here on wait for the checkpoint
  std::map<std::pair<uint64_t, uint32_t>, SimContribution> contributions;  // (round, logical lane)
  std::map<uint32_t, uint64_t> finished_lanes;                             // logical lane -> its rounds
};

struct SimHeld {
  NextWorkReply reply;
  JobView routes;  // as they were when the split was opened
  bool open = false;
  uint64_t position = 0;       // asp, ssp: records that all servers have
  uint64_t counted = 0;        // records whose metrics it has reported
  std::set<uint64_t> marks;    // asp, ssp: watermarks that no batch may straddle
  std::set<uint64_t> servers;  // asp, ssp: that have taken the batch in flight
  uint64_t round = 0;          // bsp: next to contribute to
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
  ClusterView view;
  std::vector<SimThread> threads;
  std::vector<MetricSegment> segments;
  std::vector<Unreachable> unreachable;
  std::map<uint64_t, SimServerJob> jobs;
  std::map<Task::Kind, std::string> failing;  // tasks that fail, with this message
  std::set<Task::Kind> stuck;                 // tasks that never end
  std::map<Task::Kind, int> done;             // tasks done
  std::vector<Task> tasks;                    // all that it did
  std::set<uint64_t> seen;                    // ids of them
  std::deque<TaskResult> results;             // not delivered yet
};

// What the owners of a job's partitions had when they were asked for digests.
struct SimData {
  Job job;
  std::map<uint32_t, SimPartition> partitions;
};

class SimCluster {
 public:
  static constexpr uint64_t kRecords = 4;  // of every split, in two batches
  static constexpr uint64_t kBatch = 2;

  explicit SimCluster(const std::string& state_path = "");
  void Restart();  // of the scheduler

  SimProcess* Add(Role role, const std::string& name, uint32_t threads = 1, const std::string& fingerprint = "f");
  uint64_t Submit(const Job& job, const std::string& restore_from = "");
  absl::Status Drain(const std::string& name, absl::Duration grace = absl::ZeroDuration());
  void Heartbeat(SimProcess* process);
  void Look(SimProcess* process);        // takes the newest view
  void StartTasks(SimProcess* process);  // does what the view lists; results are kept
  void SendResults(SimProcess* process);
  void DoTasks(SimProcess* process);  // all three
  // Everybody alive beats and does tasks, time passes. Who was told to exit leaves.
  void Turn(absl::Duration time = absl::Milliseconds(20));
  // Asks with all that the thread has to hand in and carries.
  void AskWork(SimProcess* worker, uint32_t thread, uint32_t wait_ms = 0);
  void Repeat(SimProcess* worker, uint32_t thread);  // the last question again
  void TakeReply(SimThread* thread);
  // One step of the lease: a split opened, a batch taken by one server, or a round. False: it has to wait.
  bool Work(SimProcess* worker, uint32_t thread, size_t held);
  // Turns, and all threads ask and work, until the job has ended or `turns` are over.
  JobStatus RunJob(uint64_t job, int turns = 4000);
  void StepThread(SimProcess* worker, uint32_t thread);
  void StepAll();

  JobStatus Status(uint64_t job);
  std::string LogText(uint64_t job);
  ClusterView View(const SimProcess& process);
  // Says nothing more, for ever. hung: lanes that know it still reach it.
  void Kill(SimProcess* process, bool hung = false);
  void Leave(SimProcess* process);
  SimProcess* Find(const std::string& name);
  // The process, if its data plane answers.
  SimProcess* Reach(uint64_t process);
  FakeClock clock;
  SchedulerOptions options;
  std::unique_ptr<Scheduler> scheduler;
  std::vector<std::unique_ptr<SimProcess>> processes, killed;
  std::set<uint64_t> hung;
  std::map<uint64_t, SimData> data;                                            // of jobs whose tables were digested
  std::map<std::string, std::map<uint32_t, SimPartition>> checkpoints, parts;  // complete, being written
  std::map<std::string, uint64_t> cut_rounds;
  std::set<std::string> damaged;            // checkpoints that cannot be read
  std::map<std::string, uint64_t> answers;  // "DUPLICATE" ... -> how often
  uint64_t splits = 6, eval_splits = 2, records = 0;
  std::string newest_checkpoint;                                        // in the one checkpoint directory that there is
  std::function<uint64_t(const SimProcess&, uint32_t partition)> load;  // bytes that servers report; none: 1000
  std::function<void(PartInfo*)> tamper;                                // with every part that is written
  bool parted = false;  // a split vanishes from a partition before the next report

 private:
  // --- Tasks (sim_cluster.cc) ---
  // Nothing: it is not done yet.
  absl::optional<TaskResult> DoTask(SimProcess* process, const Task& task);
  void Plan(TaskResult* result);
  void ReportDone(SimProcess* process, const Task& task, TaskResult* result);
  void Prepare(SimProcess* process, const Task& task);
  absl::Status Restore(SimProcess* process, const Task& task);
  absl::Status CopyTo(SimProcess* process, const Task& task, TaskResult* result);
  bool WritePart(SimProcess* process, const Task& task, TaskResult* result);

  // --- Data plane (sim_data_plane.cc) ---
  static bool Serves(const SimProcess& server, const SimServerJob& job, uint32_t partition);
  static void TakeView(SimProcess* server, SimServerJob* job, const JobView& view);
  static bool Fenced(const SimServerJob& job, const Grant& grant);  // what servers answer to a lane that is out
  SimServerJob* ReachJob(uint64_t process, const Grant& grant);
  bool Follow(SimProcess* worker, SimHeld* held);  // takes a newer map; false: there is none
  enum class Opened { kYes, kWait, kFenced };
  Opened Open(SimProcess* worker, SimHeld* held);
  bool PushBatch(SimProcess* worker, SimThread* thread, size_t held);
  enum class Pushed { kYes, kAgain, kWait, kFenced };
  Pushed PushTo(const JobView& routes, uint64_t server, const Grant& grant, uint64_t begin, uint64_t end);
  bool WorkRound(SimProcess* worker, SimThread* thread, size_t held);
  void ApplyRounds(SimServerJob* job);
  // Metrics of a batch that all servers have.
  static void Count(SimProcess* worker, SimHeld* held, uint64_t begin, uint64_t end);
  void HandIn(SimProcess* worker, SimThread* thread, size_t held, bool finished);
};

// A job of two passes; sync: "asp", "ssp" or "bsp".
Job SimJob(const std::string& sync, uint32_t passes = 2);

}  // namespace shoal

#endif  // SHOAL_SCHEDULER_SIM_CLUSTER_H_
