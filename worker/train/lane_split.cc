// The asp and ssp pipeline of a lane: read, pull one batch ahead, compute, push.
#include <algorithm>
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
  work->set_records(steps_[step]->batch().end);
  CountTrained(grant, context, steps_[step].get(), computed_[step], counted);
  Report(grant);
}

void Lane::RunSplit(const Grant& grant, JobContext* context, CompletedWork* work) {
  uint64_t counted = 0;
  backoff_.Reset();
  undecided_ = kNoStep;
  absl::optional<BegunSplit> begun = std::exchange(next_begun_, absl::nullopt);
  while (!host_.killed() && !host_.stopping() && UseGrant(grant)) {
    if (!begun.has_value()) begun.emplace().routes = context->routes();
    const std::shared_ptr<const RouteMap> routes = begun->routes;
    const absl::StatusOr<SplitEnd> end = OpenAndTrain(grant, context, &*begun, &counted, work);
    begun.reset();
    // The next split's first pull may go on while this one is handed in, but not while it is trained again.
    if (!end.ok() || *end != SplitEnd::kFinished || !next_begun_.has_value()) ForgetBegun();
    CountReach(end.status());
    if (!end.ok()) {
      if (!SplitCanGoElsewhere(end.status())) {
        work->set_error(
            absl::StrCat(Who(), ", pass ", grant.pass(), ", split ", grant.split(), ": ", end.status().message()));
      }
      return;
    }
    if (*end == SplitEnd::kFinished) work->set_finished(true);
    if (*end != SplitEnd::kReopen) return;
    // The map may be on its way, or the new owner has a partition to restore first; without a newer map the servers'
    // watermarks decide, after a breath.
    host_.AwaitMap(grant.job(), routes->version, backoff_.Next());
  }
  ForgetBegun();
}

void Lane::ForgetBegun() {
  next_begun_.reset();
  for (std::unique_ptr<BatchStep>& step : steps_) {
    if (step != nullptr) step->Quiesce();
  }
}

absl::StatusOr<Lane::SplitEnd> Lane::OpenAndTrain(const Grant& grant, JobContext* context, BegunSplit* begun,
                                                  uint64_t* counted, CompletedWork* work) {
  if (begun->reader == nullptr) {
    SHOAL_ASSIGN_OR_RETURN(begun->opened, Open(grant, context, *begun->routes));
    if (begun->opened.outcome == RequestOutcome::kStaleMap) return SplitEnd::kReopen;
    if (begun->opened.outcome == RequestOutcome::kFenced) return SplitEnd::kDrop;
    if (lane_ != grant.lane()) {
      lane_ = grant.lane();
      clock_ = std::max(grant.clock(), begun->opened.slowest_clock);
    }
    const size_t undecided = std::exchange(undecided_, kNoStep);
    if (undecided != kNoStep && begun->opened.AppliedTo(steps_[undecided]->batch().end)) {
      FinishBatch(grant, context, undecided, counted, work);
    }
    if (begun->opened.watermarks.empty()) return SplitEnd::kFinished;  // done everywhere already
    SHOAL_RETURN_IF_ERROR(StartSplit(grant, context, clock_, begun));
  }
  return TrainFrom(grant, context, *begun, counted, work);
}

absl::Status Lane::StartSplit(const Grant& grant, JobContext* context, uint64_t batch, BegunSplit* begun) {
  const uint64_t position = begun->opened.watermarks.front();
  BatchStep* const step = steps_[begun->step].get();
  {
    const StepTimer::Scope data(&timer_, StepTimer::kData);
    SHOAL_ASSIGN_OR_RETURN(begun->reader, context->train_data().OpenSplit(grant.pass(), grant.split(), position));
  }
  SHOAL_RETURN_IF_ERROR(ReadBatch(grant, begun->reader.get(), position, begun->opened.watermarks, &step->batch()));
  StartPull(grant, begun->routes, step, &computed_[begun->step], batch);
  return absl::OkStatus();
}

void Lane::BeginNext(const Grant& grant, JobContext* context, size_t step) {
  if (host_.stopping() || host_.killed()) return;
  if (!next_.has_value()) LeaseNext(grant);  // it has one already when this split was opened again
  if (!next_.has_value()) return;
  const Grant& next = next_->grant();
  if (next.eval() || next.job() != grant.job() || next.run() != grant.run() || next.lane() != lane_) return;
  BegunSplit begun;
  begun.routes = context->routes();
  begun.step = step;
  // Whatever is not as it should be shows again, and is dealt with, when the split's turn has come.
  absl::StatusOr<OpenedSplit> opened = Open(next, context, *begun.routes);
  if (!opened.ok() || opened->outcome != RequestOutcome::kOk || opened->watermarks.empty()) return;
  begun.opened = *std::move(opened);
  if (StartSplit(next, context, clock_ + 1, &begun).ok()) next_begun_ = std::move(begun);
}

absl::StatusOr<Lane::SplitEnd> Lane::TrainFrom(const Grant& grant, JobContext* context, const BegunSplit& begun,
                                               uint64_t* counted, CompletedWork* work) {
  const Sync& sync = context->config().sync();
  // With staleness 0 the rows of batch c + 1 may not be read before batch c is applied.
  const bool ahead = host_.options().pull_ahead &&
                     (sync.has_asp() ? sync.asp().pull_ahead() : sync.ssp().pull_ahead() && sync.ssp().staleness() > 0);
  const std::vector<uint64_t>& watermarks = begun.opened.watermarks;
  Report(grant);
  size_t current = begun.step;
  bool pushing = false;  // the other step's push is not acknowledged yet
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
    SHOAL_RETURN_IF_ERROR(CountBadRecords(grant, context, step.batch(), *counted));
    const bool last = step.batch().end_of_split;
    if (!last) {
      SHOAL_RETURN_IF_ERROR(ReadBatch(grant, begun.reader.get(), step.batch().end, watermarks, &other.batch()));
      if (ahead) StartPull(grant, begun.routes, &other, &computed_[1 - current], clock_ + 1);
    } else if (ahead) {
      BeginNext(grant, context, 1 - current);
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
    StartPull(grant, begun.routes, &other, &computed_[1 - current], clock_);
  }
}

}  // namespace shoal
