#include "worker/train/lane.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/optional.h"
#include "base/machine.h"
#include "base/status_macros.h"
#include "proto/metrics_convert.h"
#include "worker/model/metrics.h"
#include "worker/train/bsp_lane.h"

namespace shoal {
namespace {

// How long the scheduler parks a question for work.
constexpr uint32_t kWorkWaitMs = 1000;

// A lane that cannot reach a server which others can reach leaves the work to them for so long.
constexpr absl::Duration kFirstNap = absl::Milliseconds(500);
constexpr absl::Duration kLongestNap = absl::Seconds(10);

// Null when the job keeps none.
std::unique_ptr<HotRowTable> MakeHotRows(const JobContext& context, uint32_t lanes) {
  const HotRows& config = context.config().hot_rows();
  const Sync& sync = context.config().sync();
  if (config.bytes() == 0 || sync.has_bsp()) return nullptr;
  std::vector<uint32_t> floats(context.model().groups().size(), 0);
  const std::vector<uint32_t>& group_of_table = context.model().group_of_table();
  for (size_t t = 0; t < group_of_table.size(); ++t) {
    floats[group_of_table[t]] += context.model().spec().tables(static_cast<int>(t)).dim();
  }
  const uint64_t staleness = sync.has_asp() ? config.staleness() : sync.ssp().staleness();
  // A cache that does not fit the machine would take all other jobs of the worker down with it.
  const uint64_t most = MemoryBytes() / 4 / std::max<uint32_t>(1, lanes);
  return std::make_unique<HotRowTable>(floats, std::min(config.bytes(), most), staleness);
}

}  // namespace

bool SplitCanGoElsewhere(const absl::Status& status) {
  return absl::IsCancelled(status) || absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status) ||
         absl::IsNotFound(status);
}

std::string Lane::Who() const { return absl::StrCat("thread ", thread_); }

absl::optional<NextWorkReply> Lane::NextReply() {
  if (host_.stopping()) {
    // Carrying nothing returns what was leased ahead.
    if (completed_.has_value() || next_.has_value()) (void)Ask(completed_ ? &*completed_ : nullptr, 0, 0, 0).status();
    return absl::nullopt;
  }
  if (next_.has_value()) return std::exchange(next_, absl::nullopt);
  absl::StatusOr<NextWorkReply> reply = Ask(completed_ ? &*completed_ : nullptr, 0, 0, kWorkWaitMs);
  completed_.reset();
  if (!reply.ok() || reply->kind() == NextWorkReply::EXIT) return absl::nullopt;
  return *std::move(reply);
}

void Lane::Run() {
  while (!host_.killed()) {
    const absl::optional<NextWorkReply> reply = NextReply();
    if (!reply.has_value()) return;
    if (reply->kind() == NextWorkReply::WAIT) {
      host_.progress().SetLane(thread_, {});
      lane_ = 0;
      if (context_ != nullptr && !host_.JobActive(context_->job(), 0)) UseJob(nullptr);  // frees its memory
      timer_.Start();
      continue;
    }
    const Grant& grant = reply->grant();
    if (!grant.eval()) {
      absl::StatusOr<std::shared_ptr<JobContext>> context = host_.Context(grant.job());
      if (context.ok() && (*context)->config().sync().has_bsp()) {
        UseJob(*context);
        next_ = BspLane(this, context_.get()).Run(*reply);
        NapIfUnreachable(grant.job());
        continue;
      }
    }
    CompletedWork completed = RunGrant(grant);
    host_.Flush();  // metrics come before the news that the split is done, so that the job's end has them all
    if (completed_.has_value()) LeaseNext(grant);  // hands in the one before: one with each question
    completed_ = std::move(completed);
    if (unreachable_ > 0) next_.reset();  // goes back with the next question, which carries nothing
    NapIfUnreachable(completed_->job());
  }
}

void Lane::LeaseNext(const Grant& carried) {
  absl::StatusOr<NextWorkReply> reply = Ask(completed_ ? &*completed_ : nullptr, 1, carried.job(), 0);
  completed_.reset();
  // Anything else is said again to the next question.
  if (reply.ok() && reply->kind() == NextWorkReply::GRANT) next_ = *std::move(reply);
}

absl::StatusOr<NextWorkReply> Lane::Ask(const CompletedWork* completed, uint32_t carried, uint64_t carried_job,
                                        uint32_t wait_ms) {
  NextWorkRequest request;
  request.set_thread(thread_);
  request.set_sequence(++sequence_);
  request.set_wait_ms(wait_ms);
  request.set_carried(carried);
  request.set_carried_job(carried_job);
  if (completed != nullptr) *request.mutable_completed() = *completed;
  return host_.NextWork(std::move(request));
}

void Lane::UseJob(std::shared_ptr<JobContext> context) {
  if (context_ == context) return;
  next_begun_.reset();
  memory_wait_.End();
  for (std::unique_ptr<BatchStep>& step : steps_) step.reset();
  workspace_.reset();
  hot_rows_.reset();
  context_ = std::move(context);
  if (context_ == nullptr) return;
  workspace_ = context_->model().NewWorkspace();
  hot_rows_ = MakeHotRows(*context_, host_.options().threads);
  for (std::unique_ptr<BatchStep>& step : steps_) {
    step = std::make_unique<BatchStep>(context_.get(), Policy(context_->job()), nullptr, hot_rows_.get());
  }
}

RetryPolicy Lane::Policy(uint64_t job) {
  RetryPolicy policy;
  policy.clock = host_.options().clock;
  policy.request_timeout = host_.options().request_timeout;
  policy.retry_limit = host_.options().retry_limit;
  policy.reach_limit = host_.options().reach_limit;
  policy.keep_going = [this, job] { return !host_.killed() && host_.JobActive(job, run_); };
  policy.stopping = [this] { return host_.stopping(); };
  policy.reach = &host_.reach();
  policy.memory = &memory_wait_;
  policy.superseded = [this, job](uint64_t version) { return host_.MapSuperseded(job, version); };
  return policy;
}

bool Lane::UseGrant(const Grant& grant) {
  run_ = grant.run();
  return host_.JobActive(grant.job(), run_);
}

void Lane::CountReach(const absl::Status& status) {
  const bool lost = absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
  if (lost) {
    ++unreachable_;
    if (host_.options().warn) {
      host_.options().warn(absl::StrCat(Who(), " gives its split back and pauses: ", status.message()));
    }
  } else if (status.ok()) {
    unreachable_ = 0;
  }
}

void Lane::NapIfUnreachable(uint64_t job) {
  if (unreachable_ == 0) return;
  const absl::Duration nap = std::min(kFirstNap * (1 << std::min(unreachable_ - 1, 10)), kLongestNap);
  host_.AwaitMap(job, ~uint64_t{0}, nap);
}

CompletedWork Lane::RunGrant(const Grant& grant) {
  CompletedWork work;
  work.set_job(grant.job());
  work.set_run(grant.run());
  work.set_lease(grant.lease());
  absl::StatusOr<std::shared_ptr<JobContext>> context = host_.Context(grant.job());
  if (!context.ok()) {
    if (!SplitCanGoElsewhere(context.status())) work.set_error(absl::StrCat(Who(), ": ", context.status().message()));
    ForgetBegun();
    return work;
  }
  UseJob(*context);
  if (grant.eval()) {
    const absl::Status status = RunEval(grant, context_.get(), &work);
    if (!status.ok() && !SplitCanGoElsewhere(status)) {
      work.set_error(absl::StrCat(Who(), ": evaluation: ", status.message()));
    }
  } else {
    RunSplit(grant, context_.get(), &work);
  }
  work.set_clock(clock_);
  return work;
}

absl::StatusOr<OpenedSplit> Lane::Open(const Grant& grant, JobContext* context, const RouteMap& routes) {
  OpenSplitRequest request;
  request.header = {context->job(), grant.run(), routes.version, grant.lane()};
  request.pass = grant.pass();
  request.split = grant.split();
  request.lease = grant.lease();
  request.logical_lane = grant.logical_lane();
  std::vector<OpenSplitReply> replies(routes.servers.size());
  CallSet calls;
  calls.Reset(replies.size());
  const RetryPolicy policy = Policy(context->job());
  auto issue = [&](size_t s) {
    replies[s] = {};
    routes.servers[s].client->OpenSplit(&request, policy.request_timeout, &replies[s], calls.Begin(s));
  };
  for (size_t s = 0; s < replies.size(); ++s) issue(s);
  uint64_t retries = 0;
  const absl::StatusOr<CallsEnd> end =
      RepeatCalls(&calls, replies.size(), policy, routes.version, CallKind::kOther, issue, &retries, &routes);
  AnswerCounts counts;
  counts.retries = retries;
  OpenedSplit opened;
  opened.rounds_applied_min = ~uint64_t{0};
  if (end.ok() && *end == CallsEnd::kAnswered) {
    for (const OpenSplitReply& reply : replies) {
      counts.fenced += reply.outcome == RequestOutcome::kFenced;
      counts.stale_map += reply.outcome == RequestOutcome::kStaleMap;
      opened.outcome = std::max(opened.outcome, reply.outcome);
      opened.watermarks.insert(opened.watermarks.end(), reply.watermarks.begin(), reply.watermarks.end());
      opened.slowest_clock = std::max(opened.slowest_clock, reply.slowest_clock);
      opened.rounds_applied = std::max(opened.rounds_applied, reply.rounds_applied);
      opened.rounds_applied_min = std::min(opened.rounds_applied_min, reply.rounds_applied);
    }
  }
  host_.progress().AddAnswers(context->job(), counts);
  SHOAL_RETURN_IF_ERROR(end.status());
  if (*end == CallsEnd::kSuperseded) opened.outcome = RequestOutcome::kStaleMap;
  std::sort(opened.watermarks.begin(), opened.watermarks.end());
  opened.watermarks.erase(std::unique(opened.watermarks.begin(), opened.watermarks.end()), opened.watermarks.end());
  if (!opened.watermarks.empty() && opened.watermarks.back() == kSplitDone) opened.watermarks.pop_back();
  return opened;
}

absl::Status Lane::MarkAll(const MarkRequest& prototype, JobContext* context, const RouteMap& routes,
                           RequestOutcome* outcome) {
  MarkRequest request = prototype;
  request.header.job = context->job();
  request.header.map_version = routes.version;
  std::vector<MarkReply> replies(routes.servers.size());
  CallSet calls;
  calls.Reset(replies.size());
  const RetryPolicy policy = Policy(context->job());
  auto issue = [&](size_t s) {
    replies[s] = {};
    routes.servers[s].client->Mark(&request, policy.request_timeout, &replies[s], calls.Begin(s));
  };
  for (size_t s = 0; s < replies.size(); ++s) issue(s);
  uint64_t retries = 0;
  SHOAL_ASSIGN_OR_RETURN(const CallsEnd end, RepeatCalls(&calls, replies.size(), policy, routes.version,
                                                         CallKind::kOther, issue, &retries, &routes));
  *outcome = end == CallsEnd::kSuperseded ? RequestOutcome::kStaleMap : RequestOutcome::kOk;
  if (end == CallsEnd::kSuperseded) return absl::OkStatus();
  for (const MarkReply& reply : replies) *outcome = std::max(*outcome, reply.outcome);
  return absl::OkStatus();
}

absl::Status Lane::ReadBatch(const Grant& grant, SplitReader* reader, uint64_t position,
                             const std::vector<uint64_t>& watermarks, Batch* batch) {
  const StepTimer::Scope data(&timer_, StepTimer::kData);
  uint64_t size = grant.batch_size();
  for (uint64_t watermark : watermarks) {
    if (watermark > position) size = std::min(size, watermark - position);
  }
  SHOAL_RETURN_IF_ERROR(reader->Next(size, batch));
  if (batch->begin != position) {
    return absl::InternalError(absl::StrCat("reader is at record ", batch->begin, ", expected ", position));
  }
  return absl::OkStatus();
}

absl::Status Lane::CountBadRecords(const Grant& grant, JobContext* context, const Batch& batch, uint64_t counted) {
  // Every pass sees the same bad records: they are counted in the first one only.
  if (batch.bad.empty() || grant.pass() != 0 || batch.begin < counted) return absl::OkStatus();
  host_.progress().AddBadRecords(context->job(), batch.bad);
  if (context->config().data().max_bad_records() == 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        batch.bad.front().message, " (data.max_bad_records is 0: raise it to skip and count such records)"));
  }
  return absl::OkStatus();
}

absl::Status Lane::Compute(BatchStep* step, ComputedBatch* computed) {
  const StepTimer::Scope compute(&timer_, StepTimer::kCompute);
  absl::StatusOr<StepResult> result = step->Compute(/*training=*/true, workspace_.get());
  SHOAL_RETURN_IF_ERROR(result.status());
  computed->loss_sum = result->loss_sum;
  computed->predictions.assign(result->predictions.begin(), result->predictions.end());
  return absl::OkStatus();
}

void Lane::CountTrained(const Grant& grant, JobContext* context, BatchStep* step, const ComputedBatch& computed,
                        uint64_t* counted) {
  const Batch& batch = step->batch();
  const uint64_t own = computed.own_pushes_at_push - computed.own_pushes_at_pull;
  const uint64_t between = step->pushes_between() > own ? step->pushes_between() - own : 0;
  const uint64_t behind = computed.batch > step->slowest_clock() ? computed.batch - step->slowest_clock() : 0;
  host_.progress().AddBatch(context->job(), batch.rows, behind, between);
  host_.progress().AddTime(context->job(), timer_.Take());
  if (hot_rows_ != nullptr) {
    host_.progress().AddHotRows(context->job(), step->hot_rows_served(), step->hot_rows_pulled());
  }
  if (batch.begin < *counted) return;  // a recomputed batch is not counted twice
  // bsp: a round that its former holder pushed and counted, but that was not applied yet, is computed again; and so is,
  // whatever the mode, what a restored partition or an older state misses.
  const bool alone = (*counted == 0 && context->config().sync().has_bsp()) || batch.begin < grant.counted();
  *counted = batch.end;
  const Progress::Trained where{context->job(), grant.run(), grant.pass(), grant.split(),
                                batch.begin,    batch.end,   alone};
  host_.progress().AddTrained(thread_, where, [&](MetricSums* sums) {
    StepResult result;
    result.loss_sum = computed.loss_sum;
    result.predictions = computed.predictions;
    AddBatch(batch, result, context->model().loss(), context->model().outputs(),
             context->config().evaluate().exact_auc(), sums);
  });
}

void Lane::Report(const Grant& grant) {
  LaneReport report;
  report.set_job(grant.job());
  report.set_lane(grant.lane());
  report.set_clock(clock_);
  report.set_lease(grant.lease());
  host_.progress().SetLane(thread_, report);
}

absl::Status Lane::PullForEval(const Grant& grant, JobContext* context, BatchStep* step) {
  PullRequest pull;
  pull.header.run = grant.run();
  pull.read_only = true;
  backoff_.Reset();
  while (!host_.killed() && !host_.stopping() && UseGrant(grant)) {
    const std::shared_ptr<const RouteMap> routes = context->routes();
    step->StartPull(routes, pull);
    SHOAL_ASSIGN_OR_RETURN(const RequestOutcome outcome, step->AwaitPull());
    if (outcome == RequestOutcome::kOk) return absl::OkStatus();
    if (outcome == RequestOutcome::kFenced) break;
    host_.AwaitMap(grant.job(), routes->version, backoff_.Next());
  }
  return absl::CancelledError("the worker or the run has ended");
}

absl::Status Lane::RunEval(const Grant& grant, JobContext* context, CompletedWork* work) {
  SHOAL_ASSIGN_OR_RETURN(DataSet * data, context->EvalData());
  SHOAL_ASSIGN_OR_RETURN(std::unique_ptr<SplitReader> reader, data->OpenSplit(0, grant.split(), 0));
  MetricSums sums;
  BatchStep& step = *steps_[0];
  for (bool end = false; !end;) {
    if (host_.killed() || host_.stopping()) return absl::CancelledError("the worker is stopping");
    SHOAL_RETURN_IF_ERROR(reader->Next(grant.batch_size(), &step.batch()));
    end = step.batch().end_of_split;
    if (!step.batch().bad.empty()) {
      host_.progress().AddBadRecords(grant.job(), step.batch().bad);
      if (context->config().data().max_bad_records() == 0) {
        return absl::InvalidArgumentError(step.batch().bad.front().message);
      }
    }
    if (step.batch().rows == 0) continue;
    SHOAL_RETURN_IF_ERROR(PullForEval(grant, context, &step));
    SHOAL_ASSIGN_OR_RETURN(StepResult result, step.Compute(/*training=*/false, workspace_.get()));
    AddBatch(step.batch(), result, context->model().loss(), context->model().outputs(),
             context->config().evaluate().exact_auc(), &sums);
  }
  *work->mutable_eval() = ToProto(sums);
  work->set_finished(true);
  return absl::OkStatus();
}

}  // namespace shoal
