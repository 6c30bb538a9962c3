#ifndef SHOAL_SCHEDULER_JOBS_JOB_METRICS_H_
#define SHOAL_SCHEDULER_JOBS_JOB_METRICS_H_

#include <cstdint>
#include <map>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "base/done_set.h"
#include "base/metrics.h"
#include "proto/scheduler.pb.h"
#include "scheduler/jobs/range_set.h"
#include "scheduler/jobs/refused_batches.h"
#include "scheduler/state/state.pb.h"

namespace shoal {

// Training and evaluation metrics of one job, and the counters of its workers and servers. Not thread-safe.
class JobMetrics {
 public:
  // `plan` must outlive it. `seed`: of the job, on which the order of splits depends.
  JobMetrics(const JobPlan& plan, uint64_t seed)
      : plan_(plan), splits_(static_cast<uint64_t>(plan.train().splits_size())), refused_(plan, seed) {}

  // Counts the segment, in whatever order segments come, unless some of it was counted before. `of_older_run`: it is
  // not counted when its split was leased again, because that lease counts it. INVALID_ARGUMENT for malformed sums.
  absl::Status AddSegment(const MetricSegment& segment, bool of_older_run);
  absl::Status AddEval(const MetricSumsProto& sums);
  void ClearEval() { eval_ = MetricSums(); }  // evaluation begins anew
  void AddWorkerReport(const std::string& worker, const WorkerJobReport& report);
  void SetServerReport(const std::string& server, const ServerJobReport& report);
  // It holds nothing any more; what it has counted stays.
  void ServerGone(const std::string& server);
  // Lines for the log about batches that the guard of the server's process refused.
  std::vector<std::string> TakeRefused(uint64_t process, const ServerJobReport& report) {
    return refused_.Take(process, report);
  }
  // The lane is the worker's, which has `lanes` now.
  void NameLane(uint64_t lane, const std::string& worker, uint32_t lanes);

  // A run begins: splits are leased again.
  void BeginRun() { leased_.clear(); }
  // The split is leased. Returns the record from which on nothing of it is counted.
  uint64_t Lease(uint64_t pass, uint64_t split, bool first_run);

  // --- What partitions know better ---
  // They have applied this. Segments that are still on their way add to metrics, but not to the examples again.
  void Settle(absl::Span<const PartitionDone> reported, const DoneSet& done);
  // The job goes on from a checkpoint, which has this.
  void GoOnFrom(absl::Span<const PartitionDone> reported, const DoneSet& done);

  // --- Across a restart of the scheduler ---
  void Save(StoredProgress* progress) const;
  absl::Status Load(const StoredProgress& progress);

  // The split was handed in with this many records, whose segments have come or are on their way.
  void ExpectRecords(uint64_t pass, uint64_t split, uint64_t records);
  // All expected segments have come.
  bool Complete() const { return expected_.empty(); }

  uint64_t examples() const { return examples_; }
  uint64_t examples_before() const { return examples_before_; }
  const WorkerJobReport& counters() const { return counters_; }
  // Fills examples, counters, workers (lanes: the most at one time), servers, slots and refused batches; `sums`: train
  // and eval too.
  void Fill(bool sums, bool evaluates, JobStatus* status) const;

 private:
  void FillSlots(JobStatus* status) const;
  // Forgets the details of a split that is counted to its end.
  void CloseIfComplete(uint64_t number);
  uint64_t Number(uint64_t pass, uint64_t split) const { return pass * splits_ + split; }

  const JobPlan& plan_;
  const uint64_t splits_;  // per pass
  // By split over all passes: what is counted of it, and how many records it has, once that is known.
  std::unordered_map<uint64_t, RangeSet> counted_;
  std::unordered_map<uint64_t, uint64_t> expected_;
  DoneSet closed_;                       // splits that are counted to their end; not in the two above
  std::unordered_set<uint64_t> leased_;  // in this run, when it is not the first
  // Of these splits, and of these records of others, the examples are counted.
  DoneSet settled_;
  std::unordered_map<uint64_t, uint64_t> settled_below_;
  std::map<uint64_t, MetricSums> train_;  // by pass, the newest two: a pass opens before the last is over
  MetricSums eval_;
  uint64_t examples_ = 0, examples_before_ = 0;
  WorkerJobReport counters_;
  std::map<std::string, WorkerShare> workers_;
  std::map<std::string, ServerJobReport> servers_;
  RefusedBatches refused_;
};

}  // namespace shoal

#endif  // SHOAL_SCHEDULER_JOBS_JOB_METRICS_H_
