#ifndef SHOAL_SCHEDULER_JOBS_JOB_DIGEST_H_
#define SHOAL_SCHEDULER_JOBS_JOB_DIGEST_H_

#include <string>

#include "absl/strings/str_format.h"
#include "base/hash.h"
#include "proto/job.pb.h"

namespace shoal {

// 16 hexadecimal digits that identify the resolved job: XXH64 of its serialized form (no field of Job is a map, so that
// equal jobs have equal bytes).
inline std::string DigestOfJob(const Job& job) { return absl::StrFormat("%016x", HashBytes(job.SerializeAsString())); }

}  // namespace shoal

#endif  // SHOAL_SCHEDULER_JOBS_JOB_DIGEST_H_
