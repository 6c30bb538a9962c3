#ifndef SHOAL_SCHEDULER_STATE_MEMORY_STATE_STORE_H_
#define SHOAL_SCHEDULER_STATE_MEMORY_STATE_STORE_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "scheduler/state/state_store.h"

namespace shoal {

// Keeps records for as long as it lives itself (`shoal train`). Not thread-safe.
class MemoryStateStore : public StateStore {
 public:
  absl::Status Apply(absl::Span<const StateWrite> writes) override;
  absl::StatusOr<std::vector<StateRecord>> Load() override;

 private:
  std::map<std::pair<std::string, uint64_t>, std::string> records_;
};

}  // namespace shoal

#endif  // SHOAL_SCHEDULER_STATE_MEMORY_STATE_STORE_H_
