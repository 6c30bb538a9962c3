// What a run leaves behind for people to look at, and its progress while it lasts.
#ifndef SHOAL_LOCAL_RUN_FOLDER_H_
#define SHOAL_LOCAL_RUN_FOLDER_H_

#include <cstdio>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "base/clock.h"
#include "proto/job.pb.h"
#include "proto/scheduler.pb.h"

namespace shoal {

// <runs>/<name>-<id>/ with job.resolved.yaml and metrics.jsonl. Not thread-safe.
class RunFolder {
 public:
  // Makes the folder. REQUIRES: `job` comes from LoadJob.
  static absl::StatusOr<std::unique_ptr<RunFolder>> Create(const std::string& runs, const std::string& id,
                                                           const Job& job);
  // An id that sorts by time and that no other run on this machine has.
  static std::string NewId();
  ~RunFolder();

  const std::string& path() const { return path_; }
  // Appends a line when the last one is at least a second old, the state has changed or the job has ended. A full disk
  // is not the job's problem: errors of writing are ignored.
  void Add(const JobStatus& status);

 private:
  RunFolder() = default;

  std::string path_;
  std::FILE* metrics_ = nullptr;
  absl::Duration last_ = -absl::InfiniteDuration();
  JobState last_state_ = QUEUED;
};

// A line of progress on stderr: rewritten in place on a terminal; elsewhere a new line now and then, or nothing.
// Not thread-safe.
class ProgressLine {
 public:
  // `always`: also write when stderr is not a terminal.
  explicit ProgressLine(bool always);
  void Show(const JobStatus& status);
  // Ends a line that was being rewritten, so that what follows starts on a fresh one.
  void Finish();

 private:
  const bool terminal_;
  const bool always_;
  absl::Duration last_ = -absl::InfiniteDuration();
  JobState last_state_ = QUEUED;
  size_t width_ = 0;  // of the line that stands on the terminal
};

}  // namespace shoal

#endif  // SHOAL_LOCAL_RUN_FOLDER_H_
