// docs/job-file.md from the comments of proto/job.proto.
#ifndef SHOAL_PROTO_JOB_JOB_DOC_H_
#define SHOAL_PROTO_JOB_JOB_DOC_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace shoal {

// `descriptor_set` is what protoc --include_source_info --descriptor_set_out writes for proto/job.proto.
// INVALID_ARGUMENT when it isn't that.
absl::StatusOr<std::string> JobFileMarkdown(absl::string_view descriptor_set);

}  // namespace shoal

#endif  // SHOAL_PROTO_JOB_JOB_DOC_H_
