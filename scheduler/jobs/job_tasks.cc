#include "scheduler/jobs/job_tasks.h"

#include "absl/strings/str_cat.h"

namespace shoal {

std::string DescribeFailure(const Task& task) {
  switch (task.kind()) {
    case Task::PLAN:
      return "cannot plan the job";
    case Task::CHECK_INPUTS:
      return "cannot read the inputs";
    case Task::CHECK_CHECKPOINT_DIR:
      return absl::StrCat("cannot write checkpoint.dir ", task.job_config().checkpoint().dir());
    case Task::PREPARE_JOB:
      return task.restore_from().empty() ? "cannot make the tables"
                                         : absl::StrCat("cannot go on from checkpoint ", task.restore_from());
    case Task::RESTORE_PARTITIONS:
      return absl::StrCat("cannot restore ", task.partitions_size(), " partitions from ",
                          task.restore_from().empty() ? "nothing" : task.restore_from());
    case Task::MOVE_PARTITIONS:
      return absl::StrCat("cannot move ", task.partitions_size(), " partitions to server ", task.target().name());
    case Task::ADD_BACKUP:
      return absl::StrCat("cannot copy ", task.partitions_size(), " partitions to server ", task.target().name());
    case Task::REPORT_DONE:
      return "cannot report what is done";
    case Task::WRITE_PART:
      return absl::StrCat("cannot write its part of checkpoint ", task.checkpoint().name());
    case Task::COMMIT_CHECKPOINT:
      return absl::StrCat("cannot commit checkpoint ", task.checkpoint().name());
    case Task::DIGEST:
      return "cannot digest its tables";
    default:
      return "failed";
  }
}

}  // namespace shoal
