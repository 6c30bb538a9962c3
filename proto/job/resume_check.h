// What a checkpoint belongs to: whether a job may go on from it.
#ifndef SHOAL_PROTO_JOB_RESUME_CHECK_H_
#define SHOAL_PROTO_JOB_RESUME_CHECK_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "proto/checkpoint.pb.h"
#include "proto/job.pb.h"
#include "proto/plan.pb.h"

namespace shoal {

// Where the job differs from the one of the checkpoint in what training depends on, one sentence each: data, model,
// optimizer, batch, sync, partitions, seed, admission, ttl, guard ... The rest (name, workers, memory, checkpoint,
// evaluate, replicas, recovery) may change on the way. Empty: it is the same training.
std::vector<std::string> JobDifferences(const Manifest& manifest, const Job& job);

// Where the inputs that a plan has found differ from those of the checkpoint: files that are gone, new, or have another
// size or content, then other splits. Empty: a split's number means the same examples. At most `most` sentences.
std::vector<std::string> InputDifferences(const Manifest& manifest, const JobPlan& plan, size_t most = 10);

// FAILED_PRECONDITION that lists all differences, each on its own line. `plan` null: inputs have not been looked at.
absl::Status CheckResumes(const Manifest& manifest, const Job& job, const JobPlan* plan);

}  // namespace shoal

#endif  // SHOAL_PROTO_JOB_RESUME_CHECK_H_
