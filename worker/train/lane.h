// A lane: the thread of a worker that trains one split after another.
#ifndef SHOAL_WORKER_TRAIN_LANE_H_
#define SHOAL_WORKER_TRAIN_LANE_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "proto/scheduler.pb.h"
#include "worker/train/batch_step.h"
#include "worker/train/job_context.h"
#include "worker/train/progress.h"
#include "worker/train/step_timer.h"
#include "worker/train/worker_agent.h"

namespace shoal {

// What a lane needs of its worker. Thread-safe.
class LaneHost {
 public:
  virtual ~LaneHost() = default;
  virtual const WorkerOptions& options() const = 0;
  // The job's context, made on first use (may take as long as opening the inputs takes).
  virtual absl::StatusOr<std::shared_ptr<JobContext>> Context(uint64_t job) = 0;
  // Whether the newest view still has the job, and no newer run of it (any run: 0).
  virtual bool JobActive(uint64_t job, uint64_t run) = 0;
  // Whether the job's map is newer than `version`.
  virtual bool MapSuperseded(uint64_t job, uint64_t version) = 0;
  // Waits until that is so, at most `timeout`; ends early when the worker stops. The context has the newest map then.
  virtual void AwaitMap(uint64_t job, uint64_t version, absl::Duration timeout) = 0;
  // Asks the scheduler, again and again while it cannot be reached; CANCELLED once the worker is stopped.
  virtual absl::StatusOr<NextWorkReply> NextWork(NextWorkRequest request) = 0;
  // Sends what is in progress() now.
  virtual void Flush() = 0;
  virtual Progress& progress() = 0;
  virtual ReachLog& reach() = 0;
  // Finish the batch, return the split and end.
  virtual bool stopping() const = 0;
  // End at once.
  virtual bool killed() const = 0;
};

// What OpenSplit found on all servers together.
struct OpenedSplit {
  RequestOutcome outcome = RequestOutcome::kOk;
  std::vector<uint64_t> watermarks;  // distinct, ascending, without those that are done
  uint64_t slowest_clock = 0;        // largest that a server reported
  uint64_t rounds_applied = 0;       // bsp: largest ...
  uint64_t rounds_applied_min = 0;   // ... and smallest
  // Whether all partitions have the records below `end`.
  bool AppliedTo(uint64_t end) const { return watermarks.empty() || watermarks.front() >= end; }
};

// Whether a split that failed so should go back to the scheduler (true) or the job fail (false).
bool SplitCanGoElsewhere(const absl::Status& status);

// What the metrics of a batch need once its push is acknowledged.
struct ComputedBatch {
  std::vector<float> predictions;
  double loss_sum = 0;
  uint64_t own_pushes_at_pull = 0;
  uint64_t own_pushes_at_push = 0;
  uint64_t batch = 0;  // its index in the lane: c
};

// A split that is opened on all servers, whose first batch is read and whose first pull is under way.
struct BegunSplit {
  std::shared_ptr<const RouteMap> routes;
  OpenedSplit opened;
  std::unique_ptr<SplitReader> reader;  // null: it has yet to begin
  size_t step = 0;                      // which of the lane's steps has the batch
};

// Runs on one thread of its own. Not thread-safe.
class Lane {
 public:
  Lane(LaneHost* host, uint32_t thread) : host_(*host), thread_(thread), timer_(host->options().clock) {}
  // Until the worker stops or the scheduler says EXIT.
  void Run();

 private:
  friend class BspLane;

  // A question with the next sequence number; `completed` may be null.
  absl::StatusOr<NextWorkReply> Ask(const CompletedWork* completed, uint32_t carried, uint64_t carried_job,
                                    uint32_t wait_ms);
  // The next thing to do, once what is done is handed in; nullopt: the lane's end.
  absl::optional<NextWorkReply> NextReply();
  // Hands in what is done, keeping the lease of `carried`, and takes another one if there is any (asp, ssp).
  void LeaseNext(const Grant& carried);
  CompletedWork RunGrant(const Grant& grant);
  void RunSplit(const Grant& grant, JobContext* context, CompletedWork* work);
  enum class SplitEnd {
    kFinished,
    kReopen,  // a partition is elsewhere or at another watermark
    kDrop,    // fenced or stopping: somebody else goes on
  };
  // Opens the split unless it has begun already, and trains it.
  absl::StatusOr<SplitEnd> OpenAndTrain(const Grant& grant, JobContext* context, BegunSplit* begun, uint64_t* counted,
                                        CompletedWork* work);
  // Reads the first batch of a split that was opened, and asks for its rows. `batch`: its index in the lane.
  absl::Status StartSplit(const Grant& grant, JobContext* context, uint64_t batch, BegunSplit* begun);
  // While the last batch of `grant` waits to be computed: leases the split after it and begins it with the other step,
  // as far as that goes without waiting for anything but answers.
  void BeginNext(const Grant& grant, JobContext* context, size_t step);
  // What was begun ahead begins anew when its turn has come. No call is in flight afterwards.
  void ForgetBegun();
  // Trains a split that has begun. *counted: records of it whose metrics are counted.
  absl::StatusOr<SplitEnd> TrainFrom(const Grant& grant, JobContext* context, const BegunSplit& begun,
                                     uint64_t* counted, CompletedWork* work);
  // Waits for a push and, when it is done, counts the batch.
  absl::StatusOr<SplitEnd> FinishPush(const Grant& grant, JobContext* context, size_t step, uint64_t* counted,
                                      CompletedWork* work);
  // The batch of a step is applied everywhere.
  void FinishBatch(const Grant& grant, JobContext* context, size_t step, uint64_t* counted, CompletedWork* work);
  void StartPull(const Grant& grant, std::shared_ptr<const RouteMap> routes, BatchStep* step, ComputedBatch* computed,
                 uint64_t batch);
  absl::StatusOr<RequestOutcome> AwaitPull(BatchStep* step);
  // `round`: bsp only, else 0.
  void StartPush(const Grant& grant, uint64_t round, BatchStep* step, ComputedBatch* computed);
  absl::Status RunEval(const Grant& grant, JobContext* context, CompletedWork* work);
  // Rows for the step's batch, under whichever map has them.
  absl::Status PullForEval(const Grant& grant, JobContext* context, BatchStep* step);
  void CountReach(const absl::Status& status);
  absl::StatusOr<OpenedSplit> Open(const Grant& grant, JobContext* context, const RouteMap& routes);
  absl::Status MarkAll(const MarkRequest& prototype, JobContext* context, const RouteMap& routes,
                       RequestOutcome* outcome);
  // Reads the next batch of a split; never across a watermark of another partition.
  absl::Status ReadBatch(const Grant& grant, SplitReader* reader, uint64_t position,
                         const std::vector<uint64_t>& watermarks, Batch* batch);
  // Of a batch that is about to be computed; records below `counted` were seen before. An error when the job takes
  // none.
  absl::Status CountBadRecords(const Grant& grant, JobContext* context, const Batch& batch, uint64_t counted);
  absl::Status Compute(BatchStep* step, ComputedBatch* computed);
  void CountTrained(const Grant& grant, JobContext* context, BatchStep* step, const ComputedBatch& computed,
                    uint64_t* counted);
  RetryPolicy Policy(uint64_t job);
  // Takes (and keeps) the buffers for a job; null: frees them.
  void UseJob(std::shared_ptr<JobContext> context);
  // Remembers the grant that the lane works for. False: it is of an older run than the newest view's.
  bool UseGrant(const Grant& grant);
  // A split was given back because a server could not be reached: the next one may find it no better.
  void NapIfUnreachable(uint64_t job);
  void Report(const Grant& grant);
  std::string Who() const;

  LaneHost& host_;
  const uint32_t thread_;
  uint64_t sequence_ = 0;
  uint64_t clock_ = 0;       // batches finished by lane_
  uint64_t lane_ = 0;        // id in the live set of the job below
  uint64_t own_pushes_ = 0;  // started so far
  uint64_t run_ = 0;         // of the grant worked on: what belongs to an older run than the view's is given up
  int unreachable_ = 0;      // splits given back in a row because a server could not be reached
  Backoff backoff_;          // between attempts to open a split
  absl::optional<CompletedWork> completed_;  // not handed in yet
  absl::optional<NextWorkReply> next_;       // what was given ahead (or, to a bsp lane, after its last logical lane)
  absl::optional<BegunSplit> next_begun_;    // how far the split of next_ is; its step is in use then
  StepTimer timer_;                          // of the job below
  // Buffers of the job last worked on; steps_ end before the context that they use.
  std::shared_ptr<JobContext> context_;
  std::unique_ptr<ModelWorkspace> workspace_;
  std::unique_ptr<HotRowTable> hot_rows_;  // null: the job keeps none
  MemoryWait memory_wait_;
  std::unique_ptr<BatchStep> steps_[2];
  ComputedBatch computed_[2];  // by step
  // The step whose push not all partitions have answered, so that the split is opened again: what its watermarks say
  // then decides whether the batch is applied. kNoStep: none.
  static constexpr size_t kNoStep = 2;
  size_t undecided_ = kNoStep;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_TRAIN_LANE_H_
