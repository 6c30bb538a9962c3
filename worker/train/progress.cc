#include "worker/train/progress.h"

#include <algorithm>
#include <utility>

#include "proto/metrics_convert.h"
#include "proto/step_time.h"

namespace shoal {
namespace {

constexpr size_t kMaxErrors = 10;  // kept between two heartbeats; more say nothing new
constexpr int kMaxBadRecordSamples = 10;

void AddHistogram(const HistogramProto& from, HistogramProto* to) {
  for (const auto& [value, count] : from.count()) (*to->mutable_count())[value] += count;
}

void AddReport(const WorkerJobReport& from, WorkerJobReport* to) {
  to->set_batches(to->batches() + from.batches());
  to->set_examples(to->examples() + from.examples());
  AddHistogram(from.clock_staleness(), to->mutable_clock_staleness());
  AddHistogram(from.apply_staleness(), to->mutable_apply_staleness());
  to->set_duplicate(to->duplicate() + from.duplicate());
  to->set_fenced(to->fenced() + from.fenced());
  to->set_stale_map(to->stale_map() + from.stale_map());
  to->set_misaligned(to->misaligned() + from.misaligned());
  to->set_out_of_order(to->out_of_order() + from.out_of_order());
  to->set_retries(to->retries() + from.retries());
  to->set_bad_records(to->bad_records() + from.bad_records());
  to->set_hot_rows_served(to->hot_rows_served() + from.hot_rows_served());
  to->set_hot_rows_pulled(to->hot_rows_pulled() + from.hot_rows_pulled());
  AddStepTime(from.time(), to->mutable_time());
  for (const std::string& sample : from.bad_record_samples()) {
    if (to->bad_record_samples_size() < kMaxBadRecordSamples) to->add_bad_record_samples(sample);
  }
}

}  // namespace

void Progress::SetLane(uint32_t thread, const LaneReport& report) {
  Lane& lane = lanes_[thread];
  MutexLock lock(&lane.mu);
  lane.reports.clear();
  if (report.lane() != 0) lane.reports[report.lane()] = report;
}

Progress::Segment* Progress::SegmentFor(Lane* lane, const Trained& trained) {
  if (trained.begin >= trained.end) return nullptr;
  for (Segment& segment : lane->segments) {
    Trained& where = segment.where;
    if (where.job == trained.job && where.run == trained.run && where.pass == trained.pass &&
        where.split == trained.split && where.end == trained.begin && !where.alone) {
      where.end = trained.end;
      return &segment;
    }
  }
  lane->segments.push_back({trained, {}});
  return &lane->segments.back();
}

WorkerJobReport& Progress::JobReport(uint64_t job) {
  WorkerJobReport& report = jobs_[job];
  report.set_job(job);
  return report;
}

void Progress::AddBatch(uint64_t job, uint64_t examples, uint64_t clock_staleness, uint64_t apply_staleness) {
  MutexLock lock(&mu_);
  WorkerJobReport& report = JobReport(job);
  report.set_batches(report.batches() + 1);
  report.set_examples(report.examples() + examples);
  ++(*report.mutable_clock_staleness()->mutable_count())[clock_staleness];
  ++(*report.mutable_apply_staleness()->mutable_count())[apply_staleness];
}

void Progress::AddTime(uint64_t job, const StepTime& time) {
  MutexLock lock(&mu_);
  AddStepTime(time, JobReport(job).mutable_time());
}

void Progress::AddHotRows(uint64_t job, uint64_t served, uint64_t pulled) {
  MutexLock lock(&mu_);
  WorkerJobReport& report = JobReport(job);
  report.set_hot_rows_served(report.hot_rows_served() + served);
  report.set_hot_rows_pulled(report.hot_rows_pulled() + pulled);
}

void Progress::AddAnswers(uint64_t job, const AnswerCounts& counts) {
  WorkerJobReport delta;
  delta.set_duplicate(counts.duplicate);
  delta.set_fenced(counts.fenced);
  delta.set_stale_map(counts.stale_map);
  delta.set_misaligned(counts.misaligned);
  delta.set_out_of_order(counts.out_of_order);
  delta.set_retries(counts.retries);
  MutexLock lock(&mu_);
  AddReport(delta, &JobReport(job));
}

void Progress::AddBadRecords(uint64_t job, const std::vector<BadRecord>& bad) {
  MutexLock lock(&mu_);
  WorkerJobReport& report = JobReport(job);
  report.set_bad_records(report.bad_records() + bad.size());
  for (const BadRecord& record : bad) {
    if (report.bad_record_samples_size() >= kMaxBadRecordSamples) break;
    report.add_bad_record_samples(record.message);
  }
}

void Progress::AddError(uint64_t job, uint64_t run, const std::string& message) {
  MutexLock lock(&mu_);
  if (errors_.size() >= kMaxErrors) return;
  JobError error;
  error.set_job(job);
  error.set_run(run);
  error.set_message(message);
  errors_.push_back(std::move(error));
}

HeartbeatRequest Progress::Collect() {
  HeartbeatRequest request;
  {
    MutexLock lock(&mu_);
    for (MetricSegment& segment : restored_) *request.add_segments() = std::move(segment);
    restored_.clear();
    for (auto& [job, report] : jobs_) *request.add_worker_jobs() = std::move(report);
    jobs_.clear();
    for (JobError& error : errors_) *request.add_errors() = std::move(error);
    errors_.clear();
  }
  for (Lane& lane : lanes_) {
    std::vector<Segment> segments;
    {
      MutexLock lock(&lane.mu);
      segments.swap(lane.segments);
      for (const auto& [id, report] : lane.reports) *request.add_lanes() = report;
    }
    for (const Segment& segment : segments) {
      MetricSegment* out = request.add_segments();
      out->set_job(segment.where.job);
      out->set_run(segment.where.run);
      out->set_pass(segment.where.pass);
      out->set_split(segment.where.split);
      out->set_begin(segment.where.begin);
      out->set_end(segment.where.end);
      *out->mutable_sums() = ToProto(segment.sums);
    }
  }
  return request;
}

void Progress::Restore(const HeartbeatRequest& request) {
  MutexLock lock(&mu_);
  for (const MetricSegment& segment : request.segments()) restored_.push_back(segment);
  for (const WorkerJobReport& report : request.worker_jobs()) AddReport(report, &JobReport(report.job()));
  for (const JobError& error : request.errors()) {
    if (errors_.size() < kMaxErrors) errors_.push_back(error);
  }
}

}  // namespace shoal
