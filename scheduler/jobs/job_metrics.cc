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

absl::Status JobMetrics::AddSegment(const MetricSegment& segment, bool of_older_run) {
  const uint64_t number = Number(segment.pass(), segment.split());
  if (closed_.Contains(number) || (of_older_run && leased_.count(number) > 0)) return absl::OkStatus();
  SHOAL_ASSIGN_OR_RETURN(MetricSums sums, FromProto(segment.sums()));
  if (!counted_[number].Add(segment.begin(), segment.end())) return absl::OkStatus();
  CloseIfComplete(number);
  const auto settled = settled_below_.find(number);
  const bool known = settled_.Contains(number) || (settled != settled_below_.end() && segment.end() <= settled->second);
  if (!known) examples_ += sums.examples;
  sums.scored.clear();  // exact AUC is for evaluation; training would collect without end
  const bool old = train_.size() >= 2 && segment.pass() < train_.begin()->first;
  if (old || sums.examples == 0) return absl::OkStatus();
  train_[segment.pass()].Merge(sums);
  while (train_.size() > 2) train_.erase(train_.begin());
  return absl::OkStatus();
}

void JobMetrics::CloseIfComplete(uint64_t number) {
  const auto expected = expected_.find(number);
  if (expected == expected_.end() || !counted_[number].Covers(expected->second)) return;
  expected_.erase(expected);
  counted_.erase(number);
  closed_.Add(number);
}

uint64_t JobMetrics::Lease(uint64_t pass, uint64_t split, bool first_run) {
  const uint64_t number = Number(pass, split);
  if (!first_run) leased_.insert(number);
  if (closed_.Contains(number)) return ~uint64_t{0};
  const auto counted = counted_.find(number);
  return counted == counted_.end() ? 0 : counted->second.end();
}

void JobMetrics::Settle(absl::Span<const PartitionDone> reported, const DoneSet& done) {
  // Of a split that is open somewhere: what all partitions have. Pushes under way have come to some of them only; they
  // are computed again, and counted then.
  std::unordered_map<uint64_t, uint64_t> below;
  for (const PartitionDone& partition : reported) {
    for (const OpenSplitState& open : partition.open()) below[open.split()] = ~uint64_t{0};
  }
  for (const PartitionDone& partition : reported) {
    DoneSet here;
    here.Restore(partition.prefix(), {partition.extra().begin(), partition.extra().end()});
    std::unordered_map<uint64_t, uint64_t> watermarks;
    for (const OpenSplitState& open : partition.open()) watermarks[open.split()] = open.watermark();
    for (auto& [split, least] : below) {
      if (!here.Contains(split)) least = std::min(least, watermarks[split]);
    }
  }
  uint64_t fewest = ~uint64_t{0};
  for (const PartitionDone& partition : reported) {
    uint64_t ahead = 0;
    for (const OpenSplitState& open : partition.open()) {
      ahead += open.watermark() - std::min<uint64_t>(open.watermark(), below[open.split()]);
    }
    fewest = std::min(fewest, partition.examples() - std::min<uint64_t>(partition.examples(), ahead));
  }
  if (!reported.empty()) examples_ = fewest;
  settled_ = done;
  settled_below_ = std::move(below);
}

void JobMetrics::GoOnFrom(absl::Span<const PartitionDone> reported, const DoneSet& done) {
  Settle(reported, done);
  examples_before_ = examples_;
  closed_ = done;
  for (const auto& [split, records] : settled_below_) counted_[split].Add(0, records);
}

void JobMetrics::Save(StoredProgress* progress) const {
  progress->set_examples(examples_);
  progress->set_examples_before(examples_before_);
  for (const auto& [pass, sums] : train_) {
    StoredProgress::Pass* const out = progress->add_train();
    out->set_pass(pass);
    *out->mutable_sums() = ToProto(sums);
  }
  progress->set_counted_prefix(closed_.prefix());
  for (uint64_t split : closed_.extra()) progress->add_counted_extra(split);
  for (const auto& [split, ranges] : counted_) {
    StoredProgress::Counted* const out = progress->add_counted();
    out->set_split(split);
    for (const auto& [begin, end] : ranges.ranges()) {
      out->add_ranges(begin);
      out->add_ranges(end);
    }
  }
  *progress->mutable_counters() = counters_;
  for (const auto& [worker, so_far] : workers_) {
    WorkerShare* const share = progress->add_workers();
    *share = so_far;
    share->set_worker(worker);
  }
  refused_.Save(progress);
}

absl::Status JobMetrics::Load(const StoredProgress& progress) {
  examples_ = progress.examples();
  examples_before_ = progress.examples_before();
  for (const StoredProgress::Pass& pass : progress.train()) {
    SHOAL_ASSIGN_OR_RETURN(train_[pass.pass()], FromProto(pass.sums()));
  }
  closed_.Restore(progress.counted_prefix(), {progress.counted_extra().begin(), progress.counted_extra().end()});
  for (const StoredProgress::Counted& counted : progress.counted()) {
    for (int i = 0; i + 1 < counted.ranges_size(); i += 2) {
      counted_[counted.split()].Add(counted.ranges(i), counted.ranges(i + 1));
    }
  }
  counters_ = progress.counters();
  for (const WorkerShare& share : progress.workers()) workers_[share.worker()] = share;
  refused_.Load(progress);
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

void JobMetrics::ServerGone(const std::string& server) {
  const auto found = servers_.find(server);
  if (found == servers_.end()) return;
  ServerJobReport& report = found->second;
  report.set_rows(0);
  report.set_bytes(0);
  report.clear_partitions();
  for (SlotReport& slot : *report.mutable_slots()) {
    slot.set_rows(0);
    slot.set_keys(0);
    slot.set_bytes(0);
  }
}

void JobMetrics::ExpectRecords(uint64_t pass, uint64_t split, uint64_t records) {
  const uint64_t number = Number(pass, split);
  if (closed_.Contains(number)) return;
  expected_[number] = records;
  CloseIfComplete(number);
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
  status->set_examples_before(examples_before_);
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
