#ifndef SHOAL_SCHEDULER_JOBS_JOB_TASKS_H_
#define SHOAL_SCHEDULER_JOBS_JOB_TASKS_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/types/optional.h"
#include "scheduler/jobs/task_board.h"

namespace shoal {

// What a task is for; a group is over when none of its tasks is left.
enum class TaskGroup {
  kStart,       // plan, preflight, tables
  kAudit,       // done sets, before a pass or the job counts as complete
  kCut,         // bsp: rounds, before a checkpoint is cut
  kCheckpoint,  // parts and manifest of a periodic checkpoint
  kFinal,       // the same of the last one, and digests
  kRestore,     // lost partitions
  kCatchUp,     // done sets of partitions that were restored or whose backup took over
  kHold,        // bsp: rounds, before partitions move
  kMove,
  kBackup,
};

// The tasks of one job that wait for their results. Not thread-safe.
class JobTasks {
 public:
  explicit JobTasks(TaskBoard* board) : board_(*board) {}

  void Add(TaskGroup group, uint64_t process, Task task) {
    pending_[board_.Add(process, std::move(task))] = {group, process};
  }
  bool Pending(TaskGroup group) const {
    for (const auto& [id, entry] : pending_) {
      if (entry.group == group) return true;
    }
    return false;
  }
  bool Pending(TaskGroup group, uint64_t process) const {
    for (const auto& [id, entry] : pending_) {
      if (entry.group == group && entry.process == process) return true;
    }
    return false;
  }
  // Its result has come, or its process is gone. Nothing when it is not waited for (any more).
  absl::optional<TaskGroup> Take(uint64_t id) {
    const auto it = pending_.find(id);
    if (it == pending_.end()) return absl::nullopt;
    const TaskGroup group = it->second.group;
    pending_.erase(it);
    return group;
  }
  void Cancel(TaskGroup group) {
    for (auto it = pending_.begin(); it != pending_.end();) {
      if (it->second.group != group) {
        ++it;
        continue;
      }
      board_.Remove(it->first);
      it = pending_.erase(it);
    }
  }
  void CancelAll() {
    for (const auto& [id, entry] : pending_) board_.Remove(id);
    pending_.clear();
  }

 private:
  struct Entry {
    TaskGroup group;
    uint64_t process;
  };
  TaskBoard& board_;
  std::map<uint64_t, Entry> pending_;
};

// What a process could not do, as a reason says it.
std::string DescribeFailure(const Task& task);

}  // namespace shoal

#endif  // SHOAL_SCHEDULER_JOBS_JOB_TASKS_H_
