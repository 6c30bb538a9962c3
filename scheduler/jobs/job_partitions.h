#ifndef SHOAL_SCHEDULER_JOBS_JOB_PARTITIONS_H_
#define SHOAL_SCHEDULER_JOBS_JOB_PARTITIONS_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/types/optional.h"
#include "scheduler/jobs/event_log.h"
#include "scheduler/jobs/job_environment.h"
#include "scheduler/jobs/job_tasks.h"
#include "scheduler/placement/partition_map.h"
#include "scheduler/placement/placement.h"

namespace shoal {

// Keeps the partitions of one job where they should be: restores lost ones, moves them between servers, gives them
// backups. Part of ActiveJob, which tells it of losses and results and decides when partitions may move. Not
// thread-safe.
class JobPartitions {
 public:
  // All of it outlives this; `stored` is the job's record.
  JobPartitions(const JobEnvironment& context, StoredJob* stored, JobTasks* tasks, EventLog* log)
      : context_(context), stored_(*stored), tasks_(*tasks), log_(*log) {}

  void Load() { map_.Load(stored_); }  // after a restart of the scheduler
  // A new map for a run that begins. False: there is no server.
  bool PlaceAll();
  // Nothing moves any more, and nothing is waited for: a new run begins, or the job ends.
  void Reset();

  // --- Losses (job_partitions.cc) ---
  PartitionLoss Lose(uint64_t process);
  // Places and restores what is lost, and looks at what came back.
  void AdvanceRestores();
  void OnRestored(const Task& task, const Process& process);
  // Those of the report that were waited for since they were restored or promoted.
  std::vector<PartitionDone> TakeCaughtUp(const TaskResult& result);

  // --- Moves and backups (job_moves.cc) ---
  // `calm`: nothing else is under way that needs partitions to stay where they are.
  void AdvanceMoves(bool calm);
  void OnMoved(const Task& task, const Process& process, const TaskResult& result);
  void OnRounds(const TaskResult& result);  // TaskGroup::kHold
  void CancelMoves();
  void AdvanceBackups();
  void OnBackup(const Task& task, const Process& process, const TaskResult& result);
  // A server has joined or is draining: moves wait until the dust has settled.
  void OnArrival();
  void OnLoads(const ServerJobReport& report);
  // `owner` has called `server` in vain: after a while it gets other backups, so that pushes are acknowledged again.
  void OnUnreachable(const Process& owner, const Unreachable& server);
  // bsp: since the last call partitions have moved, while this many rounds were applied.
  absl::optional<uint64_t> TakeMoved() { return std::exchange(moved_at_, absl::nullopt); }

  const PartitionMap& map() const { return map_; }
  bool whole() const { return map_.CountLost() == 0 && awaited_.empty(); }
  bool moving() const { return !moving_.empty() || hold_.has_value() || tasks_.Pending(TaskGroup::kMove); }
  uint32_t CountMoving() const {
    return static_cast<uint32_t>(hold_.has_value() ? hold_->plan.size() : moving_.size());
  }
  // The server may go whether or not it still has partitions.
  void LetGo(uint64_t process) { let_go_.insert(process); }
  bool Needs(uint64_t process) const { return let_go_.count(process) == 0 && map_.Uses(process); }
  void FillView(JobView* view) const;
  std::string Waiting() const;        // what lost partitions wait for; empty: there are none
  std::string BackupWarning() const;  // why there are partitions without a backup, if somebody cannot be reached

 private:
  // bsp: rounds stand still while partitions move, so that nothing is applied on either side meanwhile.
  struct Hold {
    std::vector<PartitionMove> plan;
    bool told = false;  // the view says so
    uint64_t round = 0;
    uint64_t margin = 2;  // rounds from the newest one known to the hold; grows when servers are faster
    absl::optional<std::pair<uint64_t, uint64_t>> seen;  // fewest and most rounds applied, of the poll under way
    uint64_t newest = 0;
    absl::Duration newest_since;
    absl::Duration poll_at;
  };

  absl::Duration Now() const { return context_.clock->Now(); }
  bool bsp() const { return stored_.job().sync().has_bsp(); }
  bool Alive(uint64_t process) const;
  bool Draining(uint64_t process) const;
  std::vector<uint64_t> Staying() const;
  ServerAddress AddressOf(uint64_t process) const;
  Task NewTask(Task::Kind kind) const;
  void Publish();
  void Persist() { context_.state->PutJob(stored_); }

  // A server that could not be reached by another one.
  struct Avoided {
    absl::Duration until;
    uint32_t failures = 0;  // one after the other
    std::string why;
  };

  std::vector<PartitionMove> PlanMoves();
  // What is left of the plan that levels the load, or a new one when the load has been uneven for long enough.
  std::vector<PartitionMove> NextBalance(const std::vector<double>& weights, const std::vector<uint64_t>& staying);
  void MembersChanged();
  void Avoid(uint64_t owner, uint64_t backup, const std::string& why);
  bool Avoids(uint64_t owner, uint64_t backup) const;
  void PromoteFromLeaving();
  void IssueMoves(const std::vector<PartitionMove>& plan);
  void AdvanceHold();
  void Poll();
  void EndMoves();
  void Failed(const Task& task, const Process& process, const TaskResult& result);

  const JobEnvironment context_;
  StoredJob& stored_;
  JobTasks& tasks_;
  EventLog& log_;
  PartitionMap map_;
  std::map<uint32_t, PartitionLoad> loads_;
  std::set<uint32_t> awaited_;  // restored or promoted, and not looked at yet
  absl::Duration look_at_;

  std::map<uint32_t, uint64_t> moving_;  // partition -> target
  absl::optional<Hold> hold_;
  absl::Duration moves_not_before_, backups_not_before_;
  bool move_failed_ = false;
  absl::optional<uint64_t> moved_at_;
  uint32_t moves_failed_ = 0;  // one after the other
  // Moves that are still to be made of the newest plan that levels the load; nobody has come or gone since.
  std::vector<PartitionMove> balance_;
  std::vector<uint64_t> staying_;                             // servers, when moves were last thought about
  bool members_changed_ = false;                              // since that plan
  absl::optional<std::pair<uint64_t, uint64_t>> uneven_way_;  // from the busiest to the idlest ...
  absl::Duration uneven_since_;
  std::map<std::pair<uint64_t, uint64_t>, Avoided> avoided_;  // by owner and backup
  std::set<uint64_t> let_go_;
};

}  // namespace shoal

#endif  // SHOAL_SCHEDULER_JOBS_JOB_PARTITIONS_H_
