// The scheduler's records and counters in terms of its own types.
#ifndef SHOAL_SCHEDULER_STATE_DURABLE_STATE_H_
#define SHOAL_SCHEDULER_STATE_DURABLE_STATE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "scheduler/state/state.pb.h"
#include "scheduler/state/state_store.h"

namespace shoal {

// Everything that is numbered; numbers are never used twice, across restarts too.
enum class Counter { kProcess = 0, kJob = 1, kLane = 2, kLease = 3, kTask = 4, kVersion = 5 };

// Collects writes until Commit. Nothing that depends on them may leave the scheduler before that returns OK. Not
// thread-safe.
class DurableState {
 public:
  static absl::StatusOr<std::unique_ptr<DurableState>> Open(std::unique_ptr<StateStore> store);

  // The next number, from 1. Numbers are reserved in chunks, so that few of them cost a write.
  uint64_t Next(Counter counter);
  // The number that Next would return.
  uint64_t Peek(Counter counter) const { return counters_[static_cast<int>(counter)].next; }

  void PutProcess(const StoredProcess& process);
  void EraseProcess(uint64_t id);
  void PutJob(const StoredJob& job);
  void EraseJob(uint64_t id);
  void PutRounds(uint64_t job, const StoredRounds& rounds);
  void EraseRounds(uint64_t job);
  void PutProgress(uint64_t job, const StoredProgress& progress);
  void EraseProgress(uint64_t job);
  void PutLog(uint64_t job, const JobLogs& log);
  void EraseLog(uint64_t job);

  // Makes all writes so far durable; on error they are kept and tried again by the next call.
  absl::Status Commit();

  // What Open found.
  const std::vector<StoredProcess>& processes() const { return processes_; }
  const std::vector<StoredJob>& jobs() const { return jobs_; }
  const std::map<uint64_t, StoredRounds>& rounds() const { return rounds_; }
  const std::map<uint64_t, StoredProgress>& progress() const { return progress_; }
  const std::map<uint64_t, JobLogs>& logs() const { return logs_; }
  // Frees what Open found.
  void ForgetLoaded();

 private:
  struct Reserved {
    uint64_t next = 1;
    uint64_t limit = 1;  // numbers below are durable
  };
  explicit DurableState(std::unique_ptr<StateStore> store) : store_(std::move(store)) {}
  absl::Status Take(const StateRecord& record);

  std::unique_ptr<StateStore> store_;
  Reserved counters_[6];
  std::vector<StateWrite> pending_;
  std::vector<StoredProcess> processes_;
  std::vector<StoredJob> jobs_;
  std::map<uint64_t, StoredRounds> rounds_;
  std::map<uint64_t, StoredProgress> progress_;
  std::map<uint64_t, JobLogs> logs_;
};

}  // namespace shoal

#endif  // SHOAL_SCHEDULER_STATE_DURABLE_STATE_H_
