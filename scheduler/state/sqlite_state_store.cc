#include "scheduler/state/sqlite_state_store.h"

#include <sqlite3.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace shoal {
namespace {

constexpr int kVersion = 1;                 // of the table below
constexpr int kApplicationId = 0x53484f41;  // "SHOA": tells our files from other programs'

// Finalizes a statement at the end of a scope.
class Statement {
 public:
  explicit Statement(sqlite3* db, const char* sql) { code_ = sqlite3_prepare_v2(db, sql, -1, &statement_, nullptr); }
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;
  bool ok() const { return code_ == SQLITE_OK; }
  sqlite3_stmt* get() const { return statement_; }

 private:
  sqlite3_stmt* statement_ = nullptr;
  int code_;
};

void BindKey(sqlite3_stmt* statement, const StateRecord& record) {
  sqlite3_bind_text(statement, 1, record.kind.data(), static_cast<int>(record.kind.size()), SQLITE_STATIC);
  sqlite3_bind_int64(statement, 2, static_cast<sqlite3_int64>(record.id));
}

}  // namespace

absl::StatusOr<std::unique_ptr<SqliteStateStore>> SqliteStateStore::Open(const std::string& path) {
  sqlite3* db = nullptr;
  const int code = sqlite3_open_v2(path.c_str(), &db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE, nullptr);
  std::unique_ptr<SqliteStateStore> store(new SqliteStateStore(path, db));
  if (code != SQLITE_OK) return store->Error("open");
  // EXCLUSIVE keeps the lock for as long as the file is open: a second scheduler on the same file is refused.
  SHOAL_RETURN_IF_ERROR(
      store->Execute("PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL;"
                     "PRAGMA synchronous = FULL; BEGIN IMMEDIATE;"));
  SHOAL_ASSIGN_OR_RETURN(const int version, store->Version());
  if (version != 0 && version != kVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("state file ", path, ": version ", version, ", this program reads ", kVersion));
  }
  SHOAL_RETURN_IF_ERROR(
      store->Execute("CREATE TABLE IF NOT EXISTS record (kind TEXT NOT NULL, id INTEGER NOT NULL, value BLOB NOT NULL,"
                     " PRIMARY KEY (kind, id)) WITHOUT ROWID;"));
  SHOAL_RETURN_IF_ERROR(store->Execute(
      absl::StrCat("PRAGMA application_id = ", kApplicationId, "; PRAGMA user_version = ", kVersion, "; COMMIT;")
          .c_str()));
  return store;
}

SqliteStateStore::~SqliteStateStore() { sqlite3_close(db_); }

absl::Status SqliteStateStore::Error(const char* what) const {
  const std::string text = absl::StrCat("state file ", path_, ": ", what, ": ", sqlite3_errmsg(db_));
  const int code = sqlite3_errcode(db_);
  if (code == SQLITE_BUSY || code == SQLITE_LOCKED) {
    return absl::FailedPreconditionError(absl::StrCat(text, " (is another scheduler using it?)"));
  }
  return code == SQLITE_NOTADB ? absl::FailedPreconditionError(text) : absl::UnavailableError(text);
}

absl::Status SqliteStateStore::Execute(const char* sql) {
  return sqlite3_exec(db_, sql, nullptr, nullptr, nullptr) == SQLITE_OK ? absl::OkStatus() : Error("statement");
}

absl::StatusOr<int> SqliteStateStore::Version() {
  const Statement application(db_, "PRAGMA application_id");
  if (!application.ok() || sqlite3_step(application.get()) != SQLITE_ROW) return Error("read application_id");
  const int id = sqlite3_column_int(application.get(), 0);
  const Statement tables(db_, "SELECT count(*) FROM sqlite_master");
  if (!tables.ok() || sqlite3_step(tables.get()) != SQLITE_ROW) return Error("read schema");
  if (id != kApplicationId && sqlite3_column_int(tables.get(), 0) > 0) {
    return absl::FailedPreconditionError(absl::StrCat("state file ", path_, ": a database of another program"));
  }
  const Statement version(db_, "PRAGMA user_version");
  if (!version.ok() || sqlite3_step(version.get()) != SQLITE_ROW) return Error("read user_version");
  return sqlite3_column_int(version.get(), 0);
}

absl::Status SqliteStateStore::WriteAll(absl::Span<const StateWrite> writes) {
  const Statement put(db_, "INSERT OR REPLACE INTO record (kind, id, value) VALUES (?, ?, ?)");
  const Statement erase(db_, "DELETE FROM record WHERE kind = ? AND id = ?");
  if (!put.ok() || !erase.ok()) return Error("prepare");
  for (const StateWrite& write : writes) {
    sqlite3_stmt* const statement = write.erase ? erase.get() : put.get();
    sqlite3_reset(statement);
    BindKey(statement, write.record);
    if (!write.erase) {
      sqlite3_bind_blob64(statement, 3, write.record.value.data(), write.record.value.size(), SQLITE_STATIC);
    }
    if (sqlite3_step(statement) != SQLITE_DONE) return Error("write");
  }
  return absl::OkStatus();
}

absl::Status SqliteStateStore::Apply(absl::Span<const StateWrite> writes) {
  SHOAL_RETURN_IF_ERROR(Execute("BEGIN"));
  absl::Status status = WriteAll(writes);
  if (status.ok()) status = Execute("COMMIT");
  // Its own outcome does not matter: after some errors SQLite has rolled back already.
  if (!status.ok()) sqlite3_exec(db_, "ROLLBACK", nullptr, nullptr, nullptr);
  return status;
}

absl::StatusOr<std::vector<StateRecord>> SqliteStateStore::Load() {
  const Statement select(db_, "SELECT kind, id, value FROM record ORDER BY kind, id");
  if (!select.ok()) return Error("read");
  std::vector<StateRecord> all;
  int code;
  while ((code = sqlite3_step(select.get())) == SQLITE_ROW) {
    StateRecord record;
    record.kind = reinterpret_cast<const char*>(sqlite3_column_text(select.get(), 0));
    record.id = static_cast<uint64_t>(sqlite3_column_int64(select.get(), 1));
    const void* const value = sqlite3_column_blob(select.get(), 2);
    if (value != nullptr) record.value.assign(static_cast<const char*>(value), sqlite3_column_bytes(select.get(), 2));
    all.push_back(std::move(record));
  }
  if (code != SQLITE_DONE) return Error("read");
  return all;
}

}  // namespace shoal
