// What a job did, for people and for programs: the text and the JSON that the CLI prints.
#ifndef SHOAL_LOCAL_REPORT_H_
#define SHOAL_LOCAL_REPORT_H_

#include <nlohmann/json_fwd.hpp>
#include <string>

#include "base/metrics.h"
#include "proto/scheduler.pb.h"

namespace shoal {

// JSON of metric sums: log loss and AUC always, the others where they apply; null stands for an undefined value (one
// class only, no examples).
nlohmann::ordered_json MetricsJson(const MetricSums& sums);
// One line: "examples 16281  log loss 0.3201  AUC 0.9123 ...".
std::string MetricsText(const MetricSums& sums);

// A whole job. Sums that cannot be decoded (another version's bins) are left out.
nlohmann::ordered_json JobJson(const JobStatus& status);
std::string JobText(const JobStatus& status);
// The few fields of a line of `shoal list`.
nlohmann::ordered_json JobSummaryJson(const JobStatus& status);

// Processes and jobs of a cluster.
nlohmann::ordered_json ClusterJson(const ClusterStatus& status);
std::string ClusterText(const ClusterStatus& status);
// A table of jobs with a heading; says so when there is none.
std::string JobListText(const google::protobuf::RepeatedPtrField<JobStatus>& jobs);

// One line of metrics.jsonl.
nlohmann::ordered_json ProgressJson(const JobStatus& status);
// "pass 1/4  37 %  25046 examples/s  ETA 12s  log loss 0.3201  AUC 0.91".
std::string ProgressText(const JobStatus& status);

// What bsp makes of batch.size, which surprises people: "effective batch: 4 lanes x 256 = 1024 examples"; empty in
// other modes.
std::string EffectiveBatchText(const Job& job);

// The name in the proto: "RUNNING".
std::string StateName(JobState state);
bool IsFinal(JobState state);

}  // namespace shoal

#endif  // SHOAL_LOCAL_REPORT_H_
