#include "scheduler/state/durable_state.h"

#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace shoal {
namespace {

constexpr char kCounterKind[] = "counter";
constexpr char kProcessKind[] = "process";
constexpr char kJobKind[] = "job";
constexpr char kRoundsKind[] = "rounds";
constexpr char kProgressKind[] = "progress";
constexpr char kLogKind[] = "log";

// A write every 4096 leases or lanes is nothing; skipping as many numbers at a restart is nothing either.
constexpr uint64_t kChunk = 4096;

template <typename Message>
absl::Status Parse(const StateRecord& record, Message* message) {
  if (message->ParseFromString(record.value)) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("state: record ", record.kind, " ", record.id, " cannot be parsed"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<DurableState>> DurableState::Open(std::unique_ptr<StateStore> store) {
  std::unique_ptr<DurableState> state(new DurableState(std::move(store)));
  SHOAL_ASSIGN_OR_RETURN(const std::vector<StateRecord> records, state->store_->Load());
  for (const StateRecord& record : records) SHOAL_RETURN_IF_ERROR(state->Take(record));
  return state;
}

absl::Status DurableState::Take(const StateRecord& record) {
  if (record.kind == kCounterKind) {
    uint64_t limit = 0;
    if (record.id >= sizeof(counters_) / sizeof(counters_[0]) || !absl::SimpleAtoi(record.value, &limit)) {
      return absl::DataLossError(absl::StrCat("state: counter ", record.id, " is '", record.value, "'"));
    }
    counters_[record.id] = {limit, limit};
    return absl::OkStatus();
  }
  if (record.kind == kProcessKind) return Parse(record, &processes_.emplace_back());
  if (record.kind == kJobKind) return Parse(record, &jobs_.emplace_back());
  if (record.kind == kRoundsKind) return Parse(record, &rounds_[record.id]);
  if (record.kind == kProgressKind) return Parse(record, &progress_[record.id]);
  if (record.kind == kLogKind) return Parse(record, &logs_[record.id]);
  return absl::DataLossError(absl::StrCat("state: record of unknown kind '", record.kind, "'"));
}

uint64_t DurableState::Next(Counter counter) {
  const int index = static_cast<int>(counter);
  Reserved& reserved = counters_[index];
  if (reserved.next >= reserved.limit) {
    reserved.limit = reserved.next + kChunk;
    pending_.push_back({{kCounterKind, static_cast<uint64_t>(index), absl::StrCat(reserved.limit)}, false});
  }
  return reserved.next++;
}

void DurableState::PutProcess(const StoredProcess& process) {
  pending_.push_back({{kProcessKind, process.id(), process.SerializeAsString()}, false});
}
void DurableState::EraseProcess(uint64_t id) { pending_.push_back({{kProcessKind, id, ""}, true}); }
void DurableState::PutJob(const StoredJob& job) {
  pending_.push_back({{kJobKind, job.id(), job.SerializeAsString()}, false});
}
void DurableState::EraseJob(uint64_t id) { pending_.push_back({{kJobKind, id, ""}, true}); }
void DurableState::PutRounds(uint64_t job, const StoredRounds& rounds) {
  pending_.push_back({{kRoundsKind, job, rounds.SerializeAsString()}, false});
}
void DurableState::EraseRounds(uint64_t job) { pending_.push_back({{kRoundsKind, job, ""}, true}); }
void DurableState::PutProgress(uint64_t job, const StoredProgress& progress) {
  pending_.push_back({{kProgressKind, job, progress.SerializeAsString()}, false});
}
void DurableState::EraseProgress(uint64_t job) { pending_.push_back({{kProgressKind, job, ""}, true}); }
void DurableState::PutLog(uint64_t job, const JobLogs& log) {
  pending_.push_back({{kLogKind, job, log.SerializeAsString()}, false});
}
void DurableState::EraseLog(uint64_t job) { pending_.push_back({{kLogKind, job, ""}, true}); }

absl::Status DurableState::Commit() {
  if (pending_.empty()) return absl::OkStatus();
  SHOAL_RETURN_IF_ERROR(store_->Apply(pending_));
  pending_.clear();
  return absl::OkStatus();
}

void DurableState::ForgetLoaded() {
  processes_.clear();
  jobs_.clear();
  rounds_.clear();
  progress_.clear();
  logs_.clear();
}

}  // namespace shoal
