#include "scheduler/state/memory_state_store.h"

namespace shoal {

absl::Status MemoryStateStore::Apply(absl::Span<const StateWrite> writes) {
  for (const StateWrite& write : writes) {
    const std::pair<std::string, uint64_t> key(write.record.kind, write.record.id);
    if (write.erase) {
      records_.erase(key);
    } else {
      records_[key] = write.record.value;
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<StateRecord>> MemoryStateStore::Load() {
  std::vector<StateRecord> all;
  for (const auto& [key, value] : records_) all.push_back({key.first, key.second, value});
  return all;
}

}  // namespace shoal
