#ifndef SHOAL_SCHEDULER_JOBS_JOB_CHECK_H_
#define SHOAL_SCHEDULER_JOBS_JOB_CHECK_H_

#include <string>

#include "absl/status/status.h"
#include "proto/job.pb.h"
#include "proto/plan.pb.h"

namespace shoal {

// What a job is submitted with to go on from the newest checkpoint of its directory.
inline constexpr char kLatest[] = "latest";

// Whether the scheduler can run a resolved job at all. Names the field, the value and the bound. The whole job file is
// checked before it is submitted; this is what keeps the scheduler itself safe.
absl::Status CheckSubmittedJob(const Job& job);
// A directory as such, however it is written ("/a//b/./" is "/a/b"); links are not looked at.
std::string PlainDirectory(const std::string& path);
// Whether a worker's plan can be trained.
absl::Status CheckPlan(const Job& job, const JobPlan& plan);
// What a plan that can be trained may not bring, in one line; empty: nothing.
std::string PlanWarning(const Job& job, const JobPlan& plan);
// "bsp(4)", "ssp(4)", "asp".
std::string SyncName(const Job& job);

}  // namespace shoal

#endif  // SHOAL_SCHEDULER_JOBS_JOB_CHECK_H_
