// The job file: YAML to a complete, checked Job, and back. docs/job-file.md is its reference.
#ifndef SHOAL_PROTO_JOB_JOB_FILE_H_
#define SHOAL_PROTO_JOB_JOB_FILE_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/job.pb.h"

namespace shoal {

// Reads the job file at `path`, applies `overrides` ("a.b=c", in order), fills in every default, makes paths absolute
// (relative ones start at the job file's directory) and checks the whole. INVALID_ARGUMENT lists all errors, one a
// line:
//   job.yaml:12:5: optimizer.sparse.adam.learning_rat: unknown key; did you mean learning_rate?
// NOT_FOUND and the like when the file cannot be read. Does not look at the inputs. Thread-safe.
absl::StatusOr<Job> LoadJob(const std::string& path, const std::vector<std::string>& overrides = {});

// The same from text: `file_name` stands in errors, relative paths start at `base_dir` ("": the current directory).
absl::StatusOr<Job> LoadJobFromText(absl::string_view text, const std::string& file_name, const std::string& base_dir,
                                    const std::vector<std::string>& overrides = {});

// The job as YAML with every field that is in force (job.resolved.yaml). Loading it gives an equal Job.
// REQUIRES: `job` comes from LoadJob or LoadJobFromText.
std::string ResolvedYaml(const Job& job);

// 32 hexadecimal digits that identify the resolved job: equal jobs have equal digests on every machine.
std::string JobDigest(const Job& job);

}  // namespace shoal

#endif  // SHOAL_PROTO_JOB_JOB_FILE_H_
