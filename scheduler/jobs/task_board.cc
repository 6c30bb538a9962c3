#include "scheduler/jobs/task_board.h"

#include <utility>

namespace shoal {

uint64_t TaskBoard::Add(uint64_t process, Task task) {
  const uint64_t id = state_->Next(Counter::kTask);
  task.set_id(id);
  tasks_[id] = {process, std::move(task)};
  versions_[process] = state_->Next(Counter::kVersion);
  return id;
}

absl::optional<Task> TaskBoard::Take(uint64_t process, uint64_t id) {
  const auto it = tasks_.find(id);
  if (it == tasks_.end() || it->second.process != process) return absl::nullopt;
  Task task = std::move(it->second.task);
  tasks_.erase(it);
  return task;
}

std::vector<Task> TaskBoard::TakeAllOf(uint64_t process) {
  std::vector<Task> taken;
  for (auto it = tasks_.begin(); it != tasks_.end();) {
    if (it->second.process != process) {
      ++it;
      continue;
    }
    taken.push_back(std::move(it->second.task));
    it = tasks_.erase(it);
  }
  versions_.erase(process);
  return taken;
}

void TaskBoard::Remove(uint64_t id) { tasks_.erase(id); }

std::vector<const Task*> TaskBoard::Of(uint64_t process) const {
  std::vector<const Task*> tasks;
  for (const auto& [id, entry] : tasks_) {
    if (entry.process == process) tasks.push_back(&entry.task);
  }
  return tasks;
}

bool TaskBoard::Has(uint64_t process, uint64_t job, Task::Kind kind) const {
  for (const auto& [id, entry] : tasks_) {
    if (entry.process == process && entry.task.job() == job && entry.task.kind() == kind) return true;
  }
  return false;
}

uint64_t TaskBoard::Version(uint64_t process) const {
  const auto it = versions_.find(process);
  return it == versions_.end() ? 0 : it->second;
}

}  // namespace shoal
