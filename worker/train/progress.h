// What a worker's lanes have to tell the scheduler, collected between heartbeats.
#ifndef SHOAL_WORKER_TRAIN_PROGRESS_H_
#define SHOAL_WORKER_TRAIN_PROGRESS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/metrics.h"
#include "base/mutex.h"
#include "proto/scheduler.pb.h"
#include "worker/train/batch_step.h"

namespace shoal {

// Thread-safe.
class Progress {
 public:
  explicit Progress(uint32_t threads) : lanes_(threads) {}

  // Where thread `thread` stands in its lease; lane 0: in none.
  void SetLane(uint32_t thread, const LaneReport& report);
  // Metrics of records [begin, end) that all servers have acknowledged.
  struct Trained {
    uint64_t job, run, pass, split, begin, end;
    // Perhaps counted by a former holder of the split, so it is reported on its own: the scheduler drops it whole then.
    bool alone = false;
  };
  // `add` adds the batch to the sums it is given; called once, under the thread's lock.
  template <typename Add>
  void AddTrained(uint32_t thread, const Trained& trained, Add add) {
    Lane& lane = lanes_[thread];
    MutexLock lock(&lane.mu);
    Segment* segment = SegmentFor(&lane, trained);
    if (segment != nullptr) add(&segment->sums);
  }
  // One batch trained by a lane: how stale it was.
  void AddBatch(uint64_t job, uint64_t examples, uint64_t clock_staleness, uint64_t apply_staleness);
  // Where a lane's time went since it last said so.
  void AddTime(uint64_t job, const StepTime& time);
  void AddHotRows(uint64_t job, uint64_t served, uint64_t pulled);
  void AddAnswers(uint64_t job, const AnswerCounts& counts);
  void AddBadRecords(uint64_t job, const std::vector<BadRecord>& bad);
  void AddError(uint64_t job, uint64_t run, const std::string& message);

  // Moves everything out. If sending fails, give it to Restore, so that the next Collect has it again.
  HeartbeatRequest Collect();
  void Restore(const HeartbeatRequest& request);

 private:
  struct Segment {
    Trained where;
    MetricSums sums;
  };
  struct Lane {
    Mutex mu;
    std::vector<Segment> segments ABSL_GUARDED_BY(mu);
    std::map<uint64_t, LaneReport> reports ABSL_GUARDED_BY(mu);  // at most one; by lane id
  };
  static Segment* SegmentFor(Lane* lane, const Trained& trained) ABSL_EXCLUSIVE_LOCKS_REQUIRED(lane->mu);
  WorkerJobReport& JobReport(uint64_t job) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  std::vector<Lane> lanes_;
  Mutex mu_;
  std::map<uint64_t, WorkerJobReport> jobs_ ABSL_GUARDED_BY(mu_);
  std::vector<JobError> errors_ ABSL_GUARDED_BY(mu_);
  std::vector<MetricSegment> restored_ ABSL_GUARDED_BY(mu_);
};

}  // namespace shoal

#endif  // SHOAL_WORKER_TRAIN_PROGRESS_H_
