// Where the scheduler keeps what must survive it. Variants: MemoryStateStore, SqliteStateStore.
#ifndef SHOAL_SCHEDULER_STATE_STATE_STORE_H_
#define SHOAL_SCHEDULER_STATE_STATE_STORE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace shoal {

// One value, found by kind and id.
struct StateRecord {
  std::string kind;
  uint64_t id = 0;
  std::string value;
};

struct StateWrite {
  StateRecord record;
  bool erase = false;  // removes the record; its value is ignored
};

// A small durable map. Not thread-safe.
class StateStore {
 public:
  virtual ~StateStore() = default;
  // All writes or none; durable when it returns OK. Unchanged on error.
  virtual absl::Status Apply(absl::Span<const StateWrite> writes) = 0;
  // All records, ordered by kind and id.
  virtual absl::StatusOr<std::vector<StateRecord>> Load() = 0;
};

}  // namespace shoal

#endif  // SHOAL_SCHEDULER_STATE_STATE_STORE_H_
