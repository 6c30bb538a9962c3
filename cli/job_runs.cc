#include "cli/job_runs.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/options.h"
#include "local/report.h"

namespace shoal::cli {

RunJobOptions Observe(ProgressLine* progress, RunFolder* folder, const std::atomic<bool>* stop) {
  RunJobOptions options;
  options.stop = stop;
  options.on_status = [progress, folder](const JobStatus& status) {
    progress->Show(status);
    if (folder != nullptr) folder->Add(status);
  };
  return options;
}

int ReportEnd(const absl::StatusOr<JobStatus>& status, bool json) {
  if (!status.ok()) return Fail(status.status());
  Print(json, JobJson(*status), JobText(*status));
  if (status->state() == SUCCEEDED) return kOk;
  std::fprintf(stderr, "shoal: job %s: %s%s%s\n", status->name().c_str(), StateName(status->state()).c_str(),
               status->reason().empty() ? "" : ": ", status->reason().c_str());
  return kFailed;
}

void PrintEffectiveBatch(const Job& job) {
  const std::string text = EffectiveBatchText(job);
  if (!text.empty()) std::fprintf(stderr, "%s\n", text.c_str());
}

}  // namespace shoal::cli
