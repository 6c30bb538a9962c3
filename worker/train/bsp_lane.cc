#include "worker/train/bsp_lane.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace shoal {
namespace {

// How often a lane that carries less than its share asks for more.
constexpr absl::Duration kAskAgain = absl::Milliseconds(200);
constexpr uint32_t kWorkWaitMs = 1000;

}  // namespace

absl::optional<NextWorkReply> BspLane::Run(const NextWorkReply& first) {
  const Clock& clock = *lane_.host_.options().clock;
  HandleReply(first);
  while (!ended_ && !other_work_.has_value() && !lane_.host_.killed()) {
    if (!lane_.host_.JobActive(context_.job(), lane_.run_)) {
      DropAll();
      return absl::nullopt;
    }
    if (lane_.host_.stopping()) {
      ReturnAll();
      return absl::nullopt;
    }
    while (!completed_.empty() && !ended_) Exchange(/*may_wait=*/true);
    if (carried_.empty() || ended_) break;
    if (carried_.size() < share_ && clock.Now() - last_asked_ >= kAskAgain) {
      Exchange(/*may_wait=*/false);
      continue;
    }
    const uint64_t seen = wakeup_.events();
    bool moved = false;
    for (auto it = carried_.begin(); it != carried_.end();) {
      Carried& carried = it->second;
      Next next = Next::kGoOn;
      absl::StatusOr<RequestOutcome> outcome = RequestOutcome::kOk;
      if (!carried.pulling) {
        next = StartRound(&carried);
        moved = true;
      } else if (carried.step->PollPull(&outcome)) {
        moved = true;
        if (outcome.ok()) {
          next = FinishRound(&carried, *outcome);
        } else {
          HandIn(carried, /*finished=*/false, outcome.status());
          next = Next::kGone;
        }
      }
      if (next == Next::kGone) {
        if (carried.step != nullptr) spare_.push_back(std::move(carried.step));
        it = carried_.erase(it);
      } else {
        ++it;
      }
    }
    if (!moved) {
      const StepTimer::Scope pulling(&lane_.timer_, StepTimer::kPull);
      wakeup_.WaitBeyond(seen, kAskAgain);
    }
  }
  return std::move(other_work_);
}

void BspLane::HandleReply(const NextWorkReply& reply) {
  if (reply.share() > 0) share_ = reply.share();
  switch (reply.kind()) {
    case NextWorkReply::GRANT:
      if (reply.grant().eval() || reply.grant().job() != context_.job()) {
        other_work_ = reply;
      } else {
        Begin(reply.grant());
      }
      return;
    case NextWorkReply::LANE_FINISHED:
      AnnounceEnd(reply.grant());
      return;
    case NextWorkReply::EXIT:
      ended_ = true;
      return;
    default:
      return;
  }
}

void BspLane::Exchange(bool may_wait) {
  CompletedWork completed;
  const bool has_completed = !completed_.empty();
  if (has_completed) {
    completed = std::move(completed_.front());
    completed_.pop_front();
    lane_.host_.Flush();
  }
  // Work that waits to be handed in is still this thread's: a lease that is neither would be given to others.
  const uint32_t carried = static_cast<uint32_t>(carried_.size() + completed_.size());
  const bool idle = carried == 0 && may_wait;
  last_asked_ = lane_.host_.options().clock->Now();
  absl::StatusOr<NextWorkReply> reply =
      lane_.Ask(has_completed ? &completed : nullptr, carried, context_.job(), idle ? kWorkWaitMs : 0);
  if (!reply.ok()) {
    ended_ = true;
    return;
  }
  HandleReply(*reply);
}

void BspLane::Begin(const Grant& grant) {
  Carried carried;
  carried.grant = grant;
  if (spare_.empty()) {
    carried.step = std::make_unique<BatchStep>(&context_, lane_.Policy(context_.job()), &wakeup_);
  } else {
    carried.step = std::move(spare_.back());
    spare_.pop_back();
    carried.step->Quiesce();
  }
  if (Resume(&carried) == Next::kGoOn) {
    carried_[grant.logical_lane()] = std::move(carried);
  } else {
    spare_.push_back(std::move(carried.step));
  }
}

absl::StatusOr<uint64_t> BspLane::CountBatches(const Grant& grant) {
  SHOAL_ASSIGN_OR_RETURN(std::unique_ptr<SplitReader> reader,
                         context_.train_data().OpenSplit(grant.pass(), grant.split(), 0));
  Batch batch;
  uint64_t batches = 0;
  do {
    SHOAL_RETURN_IF_ERROR(reader->Next(grant.batch_size(), &batch));
    ++batches;
  } while (!batch.end_of_split);
  return batches;
}

BspLane::Next BspLane::Resume(Carried* carried) {
  const Grant& grant = carried->grant;
  while (!lane_.host_.killed() && !lane_.host_.stopping() && lane_.UseGrant(grant)) {
    carried->routes = context_.routes();
    absl::StatusOr<OpenedSplit> opened = lane_.Open(grant, &context_, *carried->routes);
    if (!opened.ok() || opened->outcome == RequestOutcome::kFenced) {
      HandIn(*carried, /*finished=*/false, opened.status());
      return Next::kGone;
    }
    if (opened->outcome == RequestOutcome::kStaleMap) {
      lane_.host_.AwaitMap(grant.job(), carried->routes->version, lane_.backoff_.Next());
      continue;
    }
    const uint64_t applied = opened->rounds_applied;
    const uint64_t batch = applied > grant.first_round() ? applied - grant.first_round() : 0;
    carried->round = grant.first_round() + batch;
    carried->position = batch * grant.batch_size();
    carried->has_mark = false;
    if (std::exchange(carried->undecided, false) &&
        (opened->watermarks.empty() || carried->position >= carried->step->batch().end)) {
      ++lane_.clock_;
      lane_.CountTrained(grant, &context_, carried->step.get(), carried->computed, &carried->counted);
    }
    if (batch > 0 || opened->watermarks.empty()) {
      absl::StatusOr<uint64_t> batches = CountBatches(grant);
      absl::Status status = batches.status();
      // A server that applied the round before proves that all servers hold all contributions: the mark that its dead
      // holder may not have sent everywhere is sent again.
      RequestOutcome outcome = RequestOutcome::kOk;
      if (status.ok() && opened->rounds_applied_min < applied && batch > 0 && batch <= *batches) {
        status = Mark(*carried, applied - 1, &outcome);
      }
      if (!status.ok() || outcome == RequestOutcome::kFenced) {
        HandIn(*carried, /*finished=*/false, status);
        return Next::kGone;
      }
      // A server that has not got the mark would never apply that round, and all lanes would wait for it.
      if (outcome == RequestOutcome::kStaleMap) {
        lane_.host_.AwaitMap(grant.job(), carried->routes->version, lane_.backoff_.Next());
        continue;
      }
      if (opened->watermarks.empty() || batch >= *batches) {
        carried->round = grant.first_round() + *batches;
        HandIn(*carried, /*finished=*/true, absl::OkStatus());
        return Next::kGone;
      }
    }
    absl::StatusOr<std::unique_ptr<SplitReader>> reader =
        context_.train_data().OpenSplit(grant.pass(), grant.split(), carried->position);
    if (!reader.ok()) {
      HandIn(*carried, /*finished=*/false, reader.status());
      return Next::kGone;
    }
    carried->reader = std::move(*reader);
    carried->pulling = false;
    return Next::kGoOn;
  }
  HandIn(*carried, /*finished=*/false, absl::OkStatus());
  return Next::kGone;
}

BspLane::Next BspLane::StartRound(Carried* carried) {
  const Grant& grant = carried->grant;
  Batch& batch = carried->step->batch();
  absl::Status status = lane_.ReadBatch(grant, carried->reader.get(), carried->position, {}, &batch);
  if (status.ok()) status = lane_.CountBadRecords(grant, &context_, batch, carried->counted);
  if (!status.ok()) {
    HandIn(*carried, /*finished=*/false, status);
    return Next::kGone;
  }
  carried->computed.batch = 0;
  carried->computed.own_pushes_at_pull = lane_.own_pushes_;
  PullRequest pull;
  pull.header.run = grant.run();
  pull.header.lane = grant.lane();
  pull.logical_lane = grant.logical_lane();
  pull.round = carried->round;
  pull.has_mark = std::exchange(carried->has_mark, false);
  carried->pulling = true;
  const StepTimer::Scope pulling(&lane_.timer_, StepTimer::kPull);
  carried->step->StartPull(carried->routes, pull);
  return Next::kGoOn;
}

BspLane::Next BspLane::FinishRound(Carried* carried, RequestOutcome outcome) {
  const Grant& grant = carried->grant;
  carried->pulling = false;
  lane_.timer_.PullEnded(carried->step->parked());
  AnswerCounts counts = carried->step->pull_counts();
  absl::StatusOr<PushEnd> verdict = PushEnd::kReopen;
  if (outcome == RequestOutcome::kFenced) verdict = PushEnd::kFenced;
  if (outcome == RequestOutcome::kOk) {
    if (lane_.host_.options().before_batch) lane_.host_.options().before_batch(lane_.thread_, lane_.clock_);
    if (lane_.host_.killed()) return Next::kGone;
    const absl::Status status = lane_.Compute(carried->step.get(), &carried->computed);
    if (!status.ok()) {
      HandIn(*carried, /*finished=*/false, status);
      return Next::kGone;
    }
    lane_.StartPush(grant, carried->round, carried->step.get(), &carried->computed);
    const StepTimer::Scope pushing(&lane_.timer_, StepTimer::kPush);
    verdict = carried->step->AwaitPush(&counts);
    carried->undecided = verdict.ok() && *verdict == PushEnd::kReopen;
  }
  lane_.host_.progress().AddAnswers(context_.job(), counts);
  if (!verdict.ok() || *verdict == PushEnd::kFenced) {
    HandIn(*carried, /*finished=*/false, verdict.status());
    return Next::kGone;
  }
  if (*verdict == PushEnd::kReopen) {
    lane_.host_.AwaitMap(grant.job(), carried->routes->version, lane_.backoff_.Next());
    return Resume(carried);
  }
  lane_.backoff_.Reset();
  ++lane_.clock_;
  carried->position = carried->step->batch().end;
  carried->has_mark = true;
  ++carried->round;
  lane_.CountTrained(grant, &context_, carried->step.get(), carried->computed, &carried->counted);
  lane_.Report(grant);
  if (!carried->step->batch().end_of_split) return Next::kGoOn;
  // The logical lane may go on elsewhere, so the mark cannot wait for the next pull.
  RequestOutcome marked = RequestOutcome::kOk;
  const absl::Status status = Mark(*carried, carried->round - 1, &marked);
  HandIn(*carried, /*finished=*/status.ok() && marked == RequestOutcome::kOk, status);
  return Next::kGone;
}

absl::Status BspLane::Mark(const Carried& carried, uint64_t round, RequestOutcome* outcome) {
  MarkRequest mark;
  mark.header.run = carried.grant.run();
  mark.header.lane = carried.grant.lane();
  mark.lease = carried.grant.lease();
  mark.logical_lane = carried.grant.logical_lane();
  mark.round = round;
  return lane_.MarkAll(mark, &context_, *carried.routes, outcome);
}

void BspLane::AnnounceEnd(const Grant& grant) {
  Carried carried;
  carried.grant = grant;
  lane_.UseGrant(grant);
  carried.routes = context_.routes();
  carried.round = grant.first_round();
  MarkRequest mark;
  mark.header.run = grant.run();
  mark.header.lane = grant.lane();
  mark.lease = grant.lease();
  mark.logical_lane = grant.logical_lane();
  mark.has_round = grant.first_round() > 0;
  mark.round = grant.first_round() > 0 ? grant.first_round() - 1 : 0;
  mark.last = true;
  RequestOutcome outcome = RequestOutcome::kOk;
  const absl::Status status = lane_.MarkAll(mark, &context_, *carried.routes, &outcome);
  HandIn(carried, status.ok() && outcome == RequestOutcome::kOk, status);
}

void BspLane::HandIn(const Carried& carried, bool finished, const absl::Status& status) {
  const Grant& grant = carried.grant;
  CompletedWork work;
  work.set_job(grant.job());
  work.set_run(grant.run());
  work.set_lease(grant.lease());
  work.set_finished(finished);
  work.set_records(carried.position);
  work.set_clock(lane_.clock_);
  work.set_next_round(carried.round);
  lane_.CountReach(status);
  if (!status.ok() && !SplitCanGoElsewhere(status)) {
    work.set_error(
        absl::StrCat(lane_.Who(), ", pass ", grant.pass(), ", split ", grant.split(), ": ", status.message()));
  }
  completed_.push_back(std::move(work));
}

void BspLane::DropAll() {
  for (auto& [logical_lane, carried] : carried_) carried.step->Quiesce();
  carried_.clear();
  completed_.clear();
}

void BspLane::ReturnAll() {
  for (auto& [logical_lane, carried] : carried_) {
    carried.step->Quiesce();
    HandIn(carried, /*finished=*/false, absl::OkStatus());
  }
  carried_.clear();
  while (!completed_.empty() && !ended_) {
    lane_.host_.Flush();
    CompletedWork completed = std::move(completed_.front());
    completed_.pop_front();
    // The answer may be new work: it is dropped here, and freed when the worker leaves.
    if (!lane_.Ask(&completed, static_cast<uint32_t>(completed_.size()), context_.job(), 0).ok()) return;
  }
}

}  // namespace shoal
