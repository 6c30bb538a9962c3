// --set a.b=c: changes to a job file's tree before it is read.
#ifndef SHOAL_PROTO_JOB_JOB_OVERRIDES_H_
#define SHOAL_PROTO_JOB_JOB_OVERRIDES_H_

#include <string>
#include <vector>

#include "proto/job/job_errors.h"
#include "proto/job/yaml_tree.h"

namespace shoal {

// Applies "path=value" texts in order. The value is YAML; elements of lists are named by index (one past the end
// appends). null removes the key, as an empty value does unless it is that of a number, a switch or a choice, where it
// is an error. Setting one choice of a oneof removes the others. Errors of paths go to *errors; unknown keys are left
// for the reader to report.
void ApplyOverrides(const std::vector<std::string>& overrides, YamlNode* root, JobErrors* errors);

}  // namespace shoal

#endif  // SHOAL_PROTO_JOB_JOB_OVERRIDES_H_
