// What processes report about a job on their heartbeats.
#include "absl/strings/str_cat.h"
#include "scheduler/jobs/active_job.h"

namespace shoal {

void ActiveJob::OnLaneReport(const Process& process, const LaneReport& report) {
  live_.Report(report.lane(), process.id, report.clock());
  const auto lane = live_.lanes().find(report.lane());
  if (lane == live_.lanes().end() || lane->second.thread.process != process.id) return;
  recoveries_.OnClock(report.lane(), report.clock(), partitions_.whole(), Now());
}

void ActiveJob::OnSegment(const Process& process, const MetricSegment& segment) {
  if (metrics_ == nullptr || segment.run() > run()) return;
  const uint64_t splits = stored_.plan().train().splits_size();
  if (segment.pass() >= job().data().passes() || segment.split() >= splits) return;
  const absl::Status status = metrics_->AddSegment(segment, segment.run() < run());
  if (!status.ok()) Fail(absl::StrCat(process.Title(), ": metrics: ", status.message()));
  progress_ = true;
}

void ActiveJob::OnWorkerReport(const Process& process, const WorkerJobReport& report) {
  if (metrics_ == nullptr) return;
  metrics_->AddWorkerReport(process.info.name(), report);
  progress_ = true;
  const uint64_t bad = metrics_->counters().bad_records();
  if (bad <= job().data().max_bad_records()) return;
  std::string samples;
  for (const std::string& sample : metrics_->counters().bad_record_samples()) absl::StrAppend(&samples, "; ", sample);
  Fail(absl::StrCat(bad, " bad records, data.max_bad_records is ", job().data().max_bad_records(), samples));
}

void ActiveJob::OnServerReport(const Process& process, const ServerJobReport& report) {
  if (metrics_ == nullptr) return;
  metrics_->SetServerReport(process.info.name(), report);
  partitions_.OnLoads(report);
  for (const std::string& line : metrics_->TakeRefused(process.id, report)) Log(line);
  progress_ = true;
  if (report.warning().empty()) return;
  const std::string warning = absl::StrCat(process.Title(), ": ", report.warning());
  if (warned_.insert(warning).second && warned_.size() <= EventLog::kMaxLines) Log(warning);
}

void ActiveJob::OnUnreachable(const Process& process) {
  for (const Unreachable& entry : process.unreachable) {
    if (ended() || !partitions_.map().Uses(entry.server())) continue;
    partitions_.OnUnreachable(process, entry);
    const Process* const server = context_.members->Find(entry.server());
    if (server == nullptr || !server->alive()) continue;
    const std::string warning = absl::StrCat(process.Title(), " cannot reach ", server->Title());
    if (warned_.insert(warning).second && warned_.size() <= EventLog::kMaxLines) {
      Log(absl::StrCat(warning, " for ", entry.seconds(), " s: ", entry.error()));
    }
  }
}

void ActiveJob::OnError(const JobError& error) {
  if (error.run() == run()) Fail(error.message());
}

}  // namespace shoal
