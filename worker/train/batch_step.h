// One batch on its way through a step: routed, pulled, computed, pushed (ARCHITECTURE section 3).
#ifndef SHOAL_WORKER_TRAIN_BATCH_STEP_H_
#define SHOAL_WORKER_TRAIN_BATCH_STEP_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/wire/parameter_messages.h"
#include "worker/data/batch.h"
#include "worker/model/model.h"
#include "worker/routing/hot_rows.h"
#include "worker/routing/router.h"
#include "worker/train/call_set.h"
#include "worker/train/job_context.h"
#include "worker/train/retry.h"

namespace shoal {

// What became of a push as a whole.
enum class PushEnd {
  kDone,    // every partition accepted it or had it already
  kReopen,  // a partition is elsewhere or at another watermark: open the split again and go on from there
  kFenced,  // another lane has the split: drop it
};

// Answers seen by a lane, added up.
struct AnswerCounts {
  uint64_t duplicate = 0, fenced = 0, stale_map = 0, misaligned = 0, out_of_order = 0, retries = 0;
};

// Buffers and requests of one batch, reused from batch to batch. Owned by one lane; not thread-safe.
class BatchStep {
 public:
  // `context` outlives the step; `wakeup` (may be null) is told when a call ends; so does `hot_rows` (null: none are
  // kept).
  BatchStep(JobContext* context, const RetryPolicy& policy, Wakeup* wakeup, HotRowTable* hot_rows = nullptr);

  Batch& batch() { return batch_; }

  // Finds unique keys, splits them by server and starts one pull per server. What the mode needs beyond the batch is
  // set in *prototype: header.run, header.lane, read_only, batch, finished, logical_lane, round, has_mark.
  void StartPull(std::shared_ptr<const RouteMap> routes, const PullRequest& prototype);
  // Without waiting for parked pulls: false when the rows are not there yet, else AwaitPull's result in *result.
  bool PollPull(absl::StatusOr<RequestOutcome>* result);
  // Waits for the rows, repeating what failed or stayed parked too long; kStaleMap also when a newer map is there
  // before the answers are.
  absl::StatusOr<RequestOutcome> AwaitPull();
  // Of the pull: the slowest live clock that any server saw.
  uint64_t slowest_clock() const { return slowest_clock_; }
  // Of the pull: how long it was parked at a gate, at most over servers.
  absl::Duration parked() const { return absl::Microseconds(parked_us_); }

  // Forward and backward (training) or forward only. The result is valid until the next call.
  absl::StatusOr<StepResult> Compute(bool training, ModelWorkspace* workspace);

  // Starts one push per server with the gradients of Compute. Set in *prototype: header.lane, pass, split, lease,
  // begin, end, end_of_split, examples, logical_lane, round.
  void StartPush(const PushRequest& prototype);
  // Waits for the answers, repeating what got lost; kReopen also when a newer map is there before they are.
  absl::StatusOr<PushEnd> AwaitPush(AnswerCounts* counts);
  // Of the push: other pushes that a server applied between the pull and this push, at most over servers.
  uint64_t pushes_between() const { return pushes_between_; }

  // Waits until no call is in flight. Bounded by the calls' deadlines.
  void Quiesce() {
    pulls_.WaitAll();
    pushes_.WaitAll();
  }

  // Of the pull: rows that hot_rows had, and rows asked for because it had not.
  uint64_t hot_rows_served() const { return hot_served_; }
  uint64_t hot_rows_pulled() const { return hot_pulled_; }

  const RouteMap& routes() const { return *routes_; }
  AnswerCounts& pull_counts() { return pull_counts_; }

 private:
  // The share of one server.
  struct ServerCall {
    std::vector<std::vector<uint64_t>> keys;         // by group; unused with a single server
    std::vector<std::vector<uint16_t>> slots;        // by group; unused with a single server or a single slot
    std::vector<std::vector<uint32_t>> counts;       // by group
    std::vector<std::vector<uint64_t>> pull_keys;    // by group; hot rows only: the keys that they lack
    std::vector<std::vector<uint32_t>> pull_counts;  // by group; likewise
    std::vector<std::vector<uint32_t>> occurrences;  // by group; admission only
    std::vector<std::vector<float>> rows;            // by table; unused with a single server
    std::vector<std::vector<float>> gradients;       // by table; unused with a single server
    bool one_memory = false;                         // with the server: tensors pass as they are
    std::vector<float> dense;                        // else: their blocks
    std::vector<uint64_t> dense_sizes;               // by partition of the server
    PullRequest pull;
    PullReply pull_reply;
    uint64_t parked_us = 0;  // by pulls that stayed parked until they were asked for again
    PushRequest push;
    PushReply push_reply;
  };

  bool single() const { return routes_->servers.size() == 1; }
  // Whether rows come straight into rows_.
  bool direct() const { return single() && !use_hot_; }
  // The server's share of the group's keys, by partition; *own is its memory unless one server has them all.
  absl::Span<const uint64_t> ShareOf(size_t server, const KeyGroup& keys, std::vector<uint64_t>* own,
                                     std::vector<uint32_t>* counts) const;
  void BuildGroup(size_t server, uint32_t group);
  // Takes what hot rows have into rows_ and lists the rest in wanted_.
  void TakeHotRows(uint64_t batch);
  void KeepHotRows(size_t server);
  void SizeBuffers();
  void SetPullDestinations(size_t server);
  void IssuePull(size_t server);
  void IssuePush(size_t server);
  void ScatterPulled();
  // What the wire does to values, also where there is none: a job computes the same in one process and on a cluster.
  void RoundPulled();
  void RoundGradients();
  void BuildPush(size_t server, const PushRequest& prototype);
  // Whether a server has answered the pull with anything but rows. REQUIRES: pulls_.Idle().
  bool PullRefused();
  absl::StatusOr<CallsEnd> RepeatPulls(CallKind kind);
  // What the pull as a whole says; fills in the rows and the counts.
  absl::StatusOr<RequestOutcome> JudgePull(const absl::StatusOr<CallsEnd>& end);
  void CountOccurrences();
  void SetSlots(size_t server, uint32_t group, PushGroup* push);
  // Calls `visit(range begin, range end in the group's keys)` for each run of keys of one server.
  template <typename Visit>
  void ForEachRange(size_t server, const KeyGroup& keys, Visit visit) const;
  // Calls `visit(block, its values in the server's `dense`)` for the server's dense blocks.
  template <typename Visit>
  void ForEachBlock(size_t server, Visit visit);
  PushEnd Judge(const PushReply& reply, AnswerCounts* counts) const;

  JobContext* const context_;
  const RetryPolicy policy_;
  const uint32_t partitions_;
  const bool count_occurrences_;
  const ValueType pull_type_, push_type_;
  HotRowTable* const hot_;  // may be null
  std::vector<std::vector<uint32_t>> tables_of_group_, dims_of_group_;

  Batch batch_;
  std::vector<Router> routers_;  // by group
  std::vector<KeyGroup> groups_;
  ValueType pulled_type_ = ValueType::kF32;       // for this batch
  bool use_hot_ = false;                          // for this batch; then:
  std::vector<KeyGroup> wanted_;                  // the keys that are pulled
  std::vector<std::vector<uint32_t>> wanted_at_;  // by group: their positions in groups_
  uint64_t hot_served_ = 0, hot_pulled_ = 0;
  std::vector<std::vector<uint32_t>> occurrences_;        // by group, by key
  std::vector<std::vector<float>> rows_, row_gradients_;  // by table
  std::vector<std::unique_ptr<float[]>> tensors_;         // by tensor
  std::vector<float*> tensor_pointers_;                   // to them
  std::vector<std::vector<float>> tensor_gradients_;      // by tensor
  StepArgs args_;

  std::shared_ptr<const RouteMap> routes_;
  std::vector<std::unique_ptr<ServerCall>> servers_;
  uint64_t slowest_clock_ = 0;
  uint64_t parked_us_ = 0;
  uint64_t pushes_between_ = 0;
  AnswerCounts pull_counts_;
  uint64_t retries_ = 0;
  CallSet pulls_, pushes_;  // last: their destructors wait for calls that use the buffers above
};

}  // namespace shoal

#endif  // SHOAL_WORKER_TRAIN_BATCH_STEP_H_
