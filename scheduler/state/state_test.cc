#include <catch2/catch.hpp>
#include <cstdlib>
#include <string>

#include "scheduler/state/durable_state.h"
#include "scheduler/state/memory_state_store.h"
#include "scheduler/state/sqlite_state_store.h"

namespace shoal {
namespace {

std::string TemporaryFile(const std::string& name) {
  const char* const dir = std::getenv("TEST_TMPDIR");
  const std::string path = std::string(dir != nullptr ? dir : "/tmp") + "/" + name;
  for (const char* suffix : {"", "-wal", "-shm"}) std::remove((path + suffix).c_str());
  return path;
}

TEST_CASE("StateStore: records are put, replaced and erased", "[scheduler][unit]") {
  std::unique_ptr<StateStore> store;
  SECTION("memory") { store = std::make_unique<MemoryStateStore>(); }
  SECTION("sqlite") { store = std::move(SqliteStateStore::Open(TemporaryFile("records.db")).value()); }
  REQUIRE(store->Apply({{{"job", 2, "two"}, false}, {{"job", 1, "one"}, false}, {{"counter", 0, "7"}, false}}).ok());
  REQUIRE(store->Apply({{{"job", 2, std::string("a\0b", 3)}, false}, {{"job", 1, ""}, true}}).ok());
  const std::vector<StateRecord> all = store->Load().value();
  REQUIRE(all.size() == 2);
  CHECK(all[0].kind == "counter");
  CHECK(all[1].id == 2);
  CHECK(all[1].value == std::string("a\0b", 3));
}

TEST_CASE("DurableState: numbers are not used twice after a restart", "[scheduler][unit]") {
  const std::string path = TemporaryFile("counters.db");
  uint64_t last = 0;
  {
    auto state = DurableState::Open(std::move(SqliteStateStore::Open(path).value())).value();
    for (int i = 0; i < 5000; ++i) last = state->Next(Counter::kLease);
    CHECK(last == 5000);
    StoredJob job;
    job.set_id(state->Next(Counter::kJob));
    job.mutable_job()->set_name("kept");
    state->PutJob(job);
    JobLogs log;
    log.add_lines("said");
    state->PutLog(1, log);
    StoredProgress progress;
    progress.set_examples(7);
    state->PutProgress(1, progress);
    state->PutProgress(2, progress);
    state->EraseProgress(2);
    REQUIRE(state->Commit().ok());
  }
  auto state = DurableState::Open(std::move(SqliteStateStore::Open(path).value())).value();
  CHECK(state->Next(Counter::kLease) > last);
  CHECK(state->Next(Counter::kJob) > 1);
  REQUIRE(state->jobs().size() == 1);
  CHECK(state->jobs()[0].job().name() == "kept");
  CHECK(state->logs().at(1).lines(0) == "said");
  REQUIRE(state->progress().size() == 1);
  CHECK(state->progress().at(1).examples() == 7);
}

TEST_CASE("SqliteStateStore: a file that is in use or no database is refused", "[scheduler][unit]") {
  const std::string path = TemporaryFile("locked.db");
  auto first = SqliteStateStore::Open(path);
  REQUIRE(first.ok());
  CHECK(SqliteStateStore::Open(path).status().code() == absl::StatusCode::kFailedPrecondition);
  const std::string text = TemporaryFile("text.db");
  FILE* const file = std::fopen(text.c_str(), "w");
  std::fputs("this is not a database, and it is long enough to be read as a header of one ............................",
             file);
  std::fclose(file);
  CHECK(SqliteStateStore::Open(text).status().code() == absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace shoal
