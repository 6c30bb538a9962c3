// How a lane carries logical lanes of a bsp job (docs/semantics.md section 3).
#ifndef SHOAL_WORKER_TRAIN_BSP_LANE_H_
#define SHOAL_WORKER_TRAIN_BSP_LANE_H_

#include <deque>
#include <map>
#include <memory>

#include "absl/types/optional.h"
#include "worker/train/lane.h"

namespace shoal {

// Runs one batch of each carried logical lane per round. Pulls of all of them are in flight together, because a round
// is applied only when every logical lane has marked it, those carried by this thread included. Not thread-safe.
class BspLane {
 public:
  BspLane(Lane* lane, JobContext* context) : lane_(*lane), context_(*context) {}
  // From the first grant until nothing is carried any more. Returns an answer of the scheduler that is about other
  // work, if it came to that.
  absl::optional<NextWorkReply> Run(const NextWorkReply& first);

 private:
  struct Carried {
    Grant grant;
    std::shared_ptr<const RouteMap> routes;
    std::unique_ptr<SplitReader> reader;
    std::unique_ptr<BatchStep> step;
    ComputedBatch computed;
    uint64_t position = 0;  // next record
    uint64_t round = 0;     // of the next batch
    bool has_mark = false;  // round - 1 is acknowledged by all servers and not marked yet
    bool pulling = false;
    bool undecided =
        false;  // the step's push was not answered by all; where the split stands says whether it is applied
    uint64_t counted = 0;
  };
  enum class Next { kGoOn, kGone };

  void HandleReply(const NextWorkReply& reply);
  // Hands in one completed piece of work (or none) and takes what comes back.
  void Exchange(bool may_wait);
  void Begin(const Grant& grant);
  // Finds where the split stands; kGone when there is nothing (left) to carry.
  Next Resume(Carried* carried);
  Next StartRound(Carried* carried);
  // Compute, push, and what follows.
  Next FinishRound(Carried* carried, RequestOutcome outcome);
  void AnnounceEnd(const Grant& grant);
  absl::StatusOr<uint64_t> CountBatches(const Grant& grant);
  void HandIn(const Carried& carried, bool finished, const absl::Status& status);
  absl::Status Mark(const Carried& carried, uint64_t round, RequestOutcome* outcome);
  // Hands everything in unfinished.
  void ReturnAll();
  // Forgets everything: the job has ended or begun a new run, so nobody waits for it.
  void DropAll();

  Lane& lane_;
  JobContext& context_;
  Wakeup wakeup_;
  std::map<uint32_t, Carried> carried_;  // by logical lane
  std::deque<CompletedWork> completed_;
  std::vector<std::unique_ptr<BatchStep>> spare_;  // buffers of logical lanes that went
  absl::optional<NextWorkReply> other_work_;
  uint32_t share_ = 1;
  bool ended_ = false;
  absl::Duration last_asked_ = absl::ZeroDuration();
};

}  // namespace shoal

#endif  // SHOAL_WORKER_TRAIN_BSP_LANE_H_
