// What train, submit, watch and local do alike with a running job: show it, record it, report its end.
#ifndef SHOAL_CLI_JOB_RUNS_H_
#define SHOAL_CLI_JOB_RUNS_H_

#include <atomic>
#include <string>

#include "absl/status/statusor.h"
#include "local/run_folder.h"
#include "local/run_job.h"
#include "proto/scheduler.pb.h"

namespace shoal::cli {

// Options of RunJob and WaitForJob that report to `progress` and, unless null, to `folder`.
RunJobOptions Observe(ProgressLine* progress, RunFolder* folder, const std::atomic<bool>* stop);

// Prints the result on stdout (a failure's reason also on stderr) and returns the exit status: 0 for SUCCEEDED.
int ReportEnd(const absl::StatusOr<JobStatus>& status, bool json);

// Says on stderr what an effective batch is, where that is not batch.size.
void PrintEffectiveBatch(const Job& job);

}  // namespace shoal::cli

#endif  // SHOAL_CLI_JOB_RUNS_H_
