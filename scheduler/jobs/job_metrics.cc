#include "scheduler/jobs/job_metrics.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"
#include "proto/metrics_convert.h"
#include "proto/step_time.h"

namespace shoal {
namespace {

constexpr int kMaxBadRecordSamples = 10;

void AddHistogram(const HistogramProto& from, HistogramProto* to) {
  for (const auto& [value, count] : from.count()) (*to->mutable_count())[value] += count;
}

}  // namespace

absl::Status JobMetrics::AddSegment(const MetricSegment& segment) {
  const uint64_t number = Number(segment.pass(), segment.split());
  uint64_t& counted = counted_[number];
  if (segment.begin() < counted || segment.end() < segment.begin()) return absl::OkStatus();
  SHOAL_ASSIGN_OR_RETURN(MetricSums sums, FromProto(segment.sums()));
  counted = segment.end();
  const auto expected = expected_.find(number);
  if (expected != expected_.end() && counted >= expected->second) expected_.erase(expected);
  examples_ += sums.examples;
  sums.scored.clear();  // exact AUC is for evaluation; training would collect without end
  const bool old = train_.size() >= 2 && segment.pass() < train_.begin()->first;
  if (old || sums.examples == 0) return absl::OkStatus();
  train_[segment.pass()].Merge(sums);
  while (train_.size() > 2) train_.erase(train_.begin());
  return absl::OkStatus();
}

absl::Status JobMetrics::AddEval(const MetricSumsProto& proto) {
  SHOAL_ASSIGN_OR_RETURN(const MetricSums sums, FromProto(proto));
  eval_.Merge(sums);
  return absl::OkStatus();
}

void JobMetrics::AddWorkerReport(const std::string& worker, const WorkerJobReport& report) {
  WorkerJobReport& c = counters_;
  c.set_batches(c.batches() + report.batches());
  c.set_examples(c.examples() + report.examples());
  AddHistogram(report.clock_staleness(), c.mutable_clock_staleness());
  AddHistogram(report.apply_staleness(), c.mutable_apply_staleness());
  c.set_duplicate(c.duplicate() + report.duplicate());
  c.set_fenced(c.fenced() + report.fenced());
  c.set_stale_map(c.stale_map() + report.stale_map());
  c.set_misaligned(c.misaligned() + report.misaligned());
  c.set_out_of_order(c.out_of_order() + report.out_of_order());
  c.set_retries(c.retries() + report.retries());
  c.set_bad_records(c.bad_records() + report.bad_records());
  c.set_hot_rows_served(c.hot_rows_served() + report.hot_rows_served());
  c.set_hot_rows_pulled(c.hot_rows_pulled() + report.hot_rows_pulled());
  AddStepTime(report.time(), c.mutable_time());
  for (const std::string& sample : report.bad_record_samples()) {
    const auto& have = c.bad_record_samples();
    if (have.size() < kMaxBadRecordSamples && std::find(have.begin(), have.end(), sample) == have.end()) {
      c.add_bad_record_samples(sample);
    }
  }
  WorkerShare& share = workers_[worker];
  share.set_examples(share.examples() + report.examples());
  AddStepTime(report.time(), share.mutable_time());
}

void JobMetrics::NameLane(uint64_t lane, const std::string& worker, uint32_t lanes) {
  refused_.NameLane(lane, worker);
  WorkerShare& share = workers_[worker];
  share.set_lanes(std::max(share.lanes(), lanes));
}

void JobMetrics::SetServerReport(const std::string& server, const ServerJobReport& report) {
  servers_[server] = report;
}

void JobMetrics::ExpectRecords(uint64_t pass, uint64_t split, uint64_t records) {
  const uint64_t number = Number(pass, split);
  const auto counted = counted_.find(number);
  if ((counted == counted_.end() ? 0 : counted->second) < records) expected_[number] = records;
}

void JobMetrics::FillSlots(JobStatus* status) const {
  std::map<std::pair<uint32_t, uint32_t>, SlotReport> sums;
  for (const auto& [server, report] : servers_) {
    for (const SlotReport& slot : report.slots()) {
      SlotReport& sum = sums[{slot.table_index(), slot.slot_index()}];
      sum.set_table_index(slot.table_index());
      sum.set_slot_index(slot.slot_index());
      sum.set_rows(sum.rows() + slot.rows());
      sum.set_keys(sum.keys() + slot.keys());
      sum.set_bytes(sum.bytes() + slot.bytes());
      sum.set_guard_refused(sum.guard_refused() + slot.guard_refused());
      sum.set_not_admitted(sum.not_admitted() + slot.not_admitted());
      sum.set_memory_refused(sum.memory_refused() + slot.memory_refused());
      sum.set_expired(sum.expired() + slot.expired());
    }
  }
  for (auto& [index, sum] : sums) {
    sum.set_table(TableName(plan_, index.first));
    sum.set_slot(SlotName(plan_, index.second));
    *status->add_slots() = std::move(sum);
  }
}

void JobMetrics::Fill(bool sums, bool evaluates, JobStatus* status) const {
  status->set_examples(examples_);
  *status->mutable_counters() = counters_;
  for (const auto& [worker, so_far] : workers_) {
    WorkerShare* const share = status->add_workers();
    *share = so_far;
    share->set_worker(worker);
  }
  for (const auto& [server, report] : servers_) {
    ServerShare* const share = status->add_servers();
    share->set_server(server);
    *share->mutable_report() = report;
    share->mutable_report()->clear_slots();
    share->mutable_report()->clear_refused();
  }
  FillSlots(status);
  refused_.Fill(status);
  if (!sums) return;
  if (!train_.empty()) *status->mutable_train() = ToProto(train_.rbegin()->second);
  if (evaluates) *status->mutable_eval() = ToProto(eval_);
}

}  // namespace shoal
