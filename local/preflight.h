// What can be known about a job on this machine before anybody trains it.
#ifndef SHOAL_LOCAL_PREFLIGHT_H_
#define SHOAL_LOCAL_PREFLIGHT_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/job.pb.h"

namespace shoal {

struct Preflight {
  std::vector<std::string> warnings;
  std::vector<std::string> missing;      // inputs that this machine cannot read, each with its field and what is wrong
  std::vector<std::string> not_checked;  // what, and why not
};

// Plans the job as a worker would, as far as its inputs are here and small enough to be read while somebody waits; else
// the model alone. The status names what no fleet could train. Reads only.
absl::StatusOr<Preflight> CheckJobHere(const Job& job);

// Whether what the job is to go on from (`resume`: a path, "latest" or empty) and warm_start.checkpoint can be. Those
// that are not on this machine, as another one may have them, are returned, each as a line; a checkpoint of another
// training is an error.
absl::StatusOr<std::vector<std::string>> CheckStart(const Job& job, const std::string& resume);

// `dir`, which `field` names, is to take a run's checkpoints, which push out older ones: FAILED_PRECONDITION when it
// holds any, unless the run goes on from one of these.
absl::Status CheckOutput(const std::string& field, const std::string& dir, const std::string& resume);

// `path` is the file, or for `directory` the directory of files, that a verb's --output is to write:
// FAILED_PRECONDITION when something is there that would be lost, unless it is to be overwritten. An empty file, a
// device, a pipe and - are free.
absl::Status CheckOutputFree(const std::string& path, bool directory, bool overwrite);

}  // namespace shoal

#endif  // SHOAL_LOCAL_PREFLIGHT_H_
