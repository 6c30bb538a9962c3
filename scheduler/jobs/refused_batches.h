// The batches of a job of which the guard of a server refused something.
#ifndef SHOAL_SCHEDULER_JOBS_REFUSED_BATCHES_H_
#define SHOAL_SCHEDULER_JOBS_REFUSED_BATCHES_H_

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <vector>

#include "proto/scheduler.pb.h"
#include "scheduler/state/state.pb.h"

namespace shoal {

// Names in a plan; a report is not trusted to stay inside it.
std::string TableName(const JobPlan& plan, uint32_t table);
std::string TensorName(const JobPlan& plan, uint32_t tensor);
std::string SlotName(const JobPlan& plan, uint32_t slot);

// Puts together what several servers say about one batch and says where it came from. Not thread-safe.
class RefusedBatches {
 public:
  static constexpr size_t kKept = 32;

  // `plan` must outlive it. `seed`: of the job, on which the order of splits depends.
  RefusedBatches(const JobPlan& plan, uint64_t seed) : plan_(plan), seed_(seed) {}

  // A lane belongs to this worker. Forgets the oldest lanes beyond a few thousand.
  void NameLane(uint64_t lane, const std::string& worker);
  // Takes what is new in a server's report. Returns what is worth a line of the log: batches not seen before, fewer
  // the more there are.
  std::vector<std::string> Take(uint64_t server, const ServerJobReport& report);
  // Fills refused and refused_batches.
  void Fill(JobStatus* status) const;
  // Across a restart of the scheduler.
  void Save(StoredProgress* progress) const;
  void Load(const StoredProgress& progress);

 private:
  void Locate(RefusedBatch* batch);
  // False: a batch not seen before.
  bool Merge(const RefusedBatch& batch);

  const JobPlan& plan_;
  const uint64_t seed_;
  std::map<uint64_t, std::string> workers_;  // by lane
  std::map<uint64_t, uint64_t> taken_;       // by server's process: number of the newest batch
  std::deque<RefusedBatch> newest_;
  uint64_t count_ = 0;   // as the server says that refused most
  uint64_t logged_ = 0;  // batches looked at for the log
  uint64_t order_pass_ = ~uint64_t{0};
  std::vector<uint32_t> order_;  // of the splits of order_pass_
};

// One line that names worker, split, records, file and what was refused.
std::string RefusedText(const RefusedBatch& batch);

}  // namespace shoal

#endif  // SHOAL_SCHEDULER_JOBS_REFUSED_BATCHES_H_
