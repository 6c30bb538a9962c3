#ifndef SHOAL_SCHEDULER_JOBS_TASK_BOARD_H_
#define SHOAL_SCHEDULER_JOBS_TASK_BOARD_H_

#include <cstdint>
#include <map>
#include <vector>

#include "absl/types/optional.h"
#include "proto/scheduler.pb.h"
#include "scheduler/state/durable_state.h"

namespace shoal {

// The tasks that wait for their results, by the process that is to do them. Not thread-safe.
class TaskBoard {
 public:
  explicit TaskBoard(DurableState* state) : state_(state) {}

  // Puts the task up for the process; returns its id.
  uint64_t Add(uint64_t process, Task task);
  // Takes the task down, if it is that process's. A repeated or stray result finds nothing.
  absl::optional<Task> Take(uint64_t process, uint64_t id);
  // Takes down all tasks of a process that is gone.
  std::vector<Task> TakeAllOf(uint64_t process);
  void Remove(uint64_t id);

  std::vector<const Task*> Of(uint64_t process) const;
  bool Has(uint64_t process, uint64_t job, Task::Kind kind) const;
  // Grows when the process gets a task; 0: it never had one.
  uint64_t Version(uint64_t process) const;

 private:
  struct Entry {
    uint64_t process;
    Task task;
  };
  DurableState* const state_;
  std::map<uint64_t, Entry> tasks_;
  std::map<uint64_t, uint64_t> versions_;
};

}  // namespace shoal

#endif  // SHOAL_SCHEDULER_JOBS_TASK_BOARD_H_
