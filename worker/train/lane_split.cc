// The asp and ssp pipeline of a lane: read, pull one batch ahead, compute, push.
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/train/lane.h"

namespace shoal {

void Lane::StartPull(const Grant& grant, std::shared_ptr<const RouteMap> routes, BatchStep* step,
                     ComputedBatch* computed, uint64_t batch) {
  const StepTimer::Scope pulling(&timer_, StepTimer::kPull);
  computed->batch = batch;
  computed->own_pushes_at_pull = own_pushes_;
  PullRequest pull;
  pull.header.run = grant.run();
  pull.header.lane = grant.lane();
  pull.batch = batch;
  pull.finished = clock_;
  step->StartPull(std::move(routes), pull);
}

absl::StatusOr<RequestOutcome> Lane::AwaitPull(BatchStep* step) {
  const StepTimer::Scope pulling(&timer_, StepTimer::kPull);
  absl::StatusOr<RequestOutcome> outcome = step->AwaitPull();
  timer_.PullEnded(step->parked());
  return outcome;
}

void Lane::StartPush(const Grant& grant, uint64_t round, BatchStep* step, ComputedBatch* computed) {
  const StepTimer::Scope pushing(&timer_, StepTimer::kPush);
  const Batch& batch = step->batch();
  PushRequest push;
  push.header.lane = grant.lane();
  push.pass = grant.pass();
  push.split = grant.split();
  push.lease = grant.lease();
  push.begin = batch.begin;
  push.end = batch.end;
  push.end_of_split = batch.end_of_split;
  push.examples = batch.rows;
  push.logical_lane = grant.logical_lane();
  push.round = round;
  computed->own_pushes_at_push = own_pushes_++;
  step->StartPush(push);
}

absl::StatusOr<Lane::SplitEnd> Lane::FinishPush(const Grant& grant, JobContext* context, size_t step, uint64_t* counted,
                                                CompletedWork* work) {
  AnswerCounts counts;
  absl::StatusOr<PushEnd> verdict = PushEnd::kDone;
  {
    const StepTimer::Scope pushing(&timer_, StepTimer::kPush);
    verdict = steps_[step]->AwaitPush(&counts);
  }
  host_.progress().AddAnswers(context->job(), counts);
  SHOAL_RETURN_IF_ERROR(verdict.status());
  if (*verdict == PushEnd::kFenced) return SplitEnd::kDrop;
  if (*verdict == PushEnd::kReopen) {
    undecided_ = step;
    return SplitEnd::kReopen;
  }
  FinishBatch(grant, context, step, counted, work);
  backoff_.Reset();
  return SplitEnd::kFinished;
}

void Lane::FinishBatch(const Grant& grant, JobContext* context, size_t step, uint64_t* counted, CompletedWork* work) {
  ++clock_;
  const uint64_t end = steps_[step]->batch().end;
  work->set_records(end);
  CountTrained(grant, context, steps_[step].get(), computed_[step], counted);
  Report(grant, end);
}

absl::StatusOr<Lane::SplitEnd> Lane::TrainFrom(const Grant& grant, JobContext* context,
                                               std::shared_ptr<const RouteMap> routes, const OpenedSplit& opened,
                                               uint64_t* counted, CompletedWork* work) {
  if (opened.watermarks.empty()) return SplitEnd::kFinished;  // done everywhere already
  const Sync& sync = context->config().sync();
  // With staleness 0 the rows of batch c + 1 may not be read before batch c is applied.
  const bool ahead = host_.options().pull_ahead && (sync.has_asp() || sync.ssp().staleness() > 0);
  uint64_t position = opened.watermarks.front();
  SHOAL_ASSIGN_OR_RETURN(std::unique_ptr<SplitReader> reader,
                         context->train_data().OpenSplit(grant.pass(), grant.split(), position));
  Report(grant, position);
  size_t current = 0;
  bool pushing = false;  // the other step's push is not acknowledged yet
  SHOAL_RETURN_IF_ERROR(
      ReadBatch(grant, context, reader.get(), position, opened.watermarks, *counted, &steps_[0]->batch()));
  StartPull(grant, routes, steps_[0].get(), &computed_[0], clock_);
  for (;; current = 1 - current) {
    BatchStep& step = *steps_[current];
    BatchStep& other = *steps_[1 - current];
    const absl::StatusOr<RequestOutcome> outcome = AwaitPull(&step);
    host_.progress().AddAnswers(context->job(), step.pull_counts());
    // The push before goes first: what it answers decides whether this batch is the right one.
    if (pushing) {
      SHOAL_ASSIGN_OR_RETURN(SplitEnd end, FinishPush(grant, context, 1 - current, counted, work));
      pushing = false;
      if (end != SplitEnd::kFinished) return end;
      if (host_.stopping()) return SplitEnd::kDrop;
    }
    SHOAL_RETURN_IF_ERROR(outcome.status());
    if (*outcome == RequestOutcome::kFenced) return SplitEnd::kDrop;
    if (*outcome == RequestOutcome::kStaleMap) return SplitEnd::kReopen;
    if (host_.options().before_batch) host_.options().before_batch(thread_, clock_);
    if (host_.killed()) return SplitEnd::kDrop;
    position = step.batch().end;
    const bool last = step.batch().end_of_split;
    if (!last) {
      SHOAL_RETURN_IF_ERROR(
          ReadBatch(grant, context, reader.get(), position, opened.watermarks, *counted, &other.batch()));
      if (ahead) StartPull(grant, routes, &other, &computed_[1 - current], clock_ + 1);
    }
    SHOAL_RETURN_IF_ERROR(Compute(&step, &computed_[current]));
    StartPush(grant, /*round=*/0, &step, &computed_[current]);
    if (ahead && !last) {
      pushing = true;
      continue;
    }
    SHOAL_ASSIGN_OR_RETURN(SplitEnd end, FinishPush(grant, context, current, counted, work));
    if (end != SplitEnd::kFinished || last) return end;
    if (host_.stopping()) return SplitEnd::kDrop;
    StartPull(grant, routes, &other, &computed_[1 - current], clock_);
  }
}

}  // namespace shoal
