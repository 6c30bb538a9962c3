// A job's way into a checkpoint and back.
#include "server/server_job.h"

namespace shoal {

absl::Status ServerJob::Restore(const std::string&) { return absl::UnimplementedError("checkpoints"); }
absl::StatusOr<PartInfo> ServerJob::WritePart(const CheckpointTask&, absl::Duration) {
  return absl::UnimplementedError("checkpoints");
}

}  // namespace shoal
