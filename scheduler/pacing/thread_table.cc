#include "scheduler/pacing/thread_table.h"

namespace shoal {

uint32_t ThreadTable::CountFor(uint64_t job, absl::Duration since,
                               const std::function<bool(uint64_t process)>& fits) const {
  uint32_t count = 0;
  for (const auto& [id, thread] : threads_) {
    const bool idle = thread.job == 0 && (thread.parked.has_value() || thread.last_asked >= since);
    if ((thread.job == job || idle) && fits(id.process)) ++count;
  }
  return count;
}

uint32_t ThreadTable::CountWorking(uint64_t job, ThreadId self) const {
  uint32_t count = 0;
  for (const auto& [id, thread] : threads_) count += thread.job == job && !(id == self);
  return count;
}

}  // namespace shoal
