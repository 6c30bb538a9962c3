#ifndef SHOAL_SCHEDULER_STATE_SQLITE_STATE_STORE_H_
#define SHOAL_SCHEDULER_STATE_SQLITE_STATE_STORE_H_

#include <memory>
#include <string>
#include <vector>

#include "scheduler/state/state_store.h"

struct sqlite3;

namespace shoal {

// Keeps records in one SQLite file (write-ahead log, synchronous = FULL: durable on return). The file is locked, so
// that two schedulers cannot share it. Not thread-safe.
class SqliteStateStore : public StateStore {
 public:
  // Makes the file if it is absent. FAILED_PRECONDITION when it is another program's, a newer version's or in use.
  static absl::StatusOr<std::unique_ptr<SqliteStateStore>> Open(const std::string& path);
  ~SqliteStateStore() override;

  absl::Status Apply(absl::Span<const StateWrite> writes) override;
  absl::StatusOr<std::vector<StateRecord>> Load() override;

 private:
  SqliteStateStore(std::string path, sqlite3* db) : path_(std::move(path)), db_(db) {}
  absl::Status Execute(const char* sql);
  absl::Status Error(const char* what) const;
  absl::Status WriteAll(absl::Span<const StateWrite> writes);
  absl::StatusOr<int> Version();

  const std::string path_;
  sqlite3* const db_;
};

}  // namespace shoal

#endif  // SHOAL_SCHEDULER_STATE_SQLITE_STATE_STORE_H_
