#ifndef SHOAL_SCHEDULER_JOBS_EVENT_LOG_H_
#define SHOAL_SCHEDULER_JOBS_EVENT_LOG_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>

#include "absl/strings/string_view.h"
#include "proto/scheduler.pb.h"

namespace shoal {

// The last events of a job, each with its (wall-clock) time. Not thread-safe.
class EventLog {
 public:
  static constexpr size_t kMaxLines = 1000;
  // A line is cut at this length, so that the log is bounded in bytes too.
  static constexpr size_t kMaxLineBytes = 4096;

  // What is kept across a restart of the scheduler: the last lines, within these bounds.
  static constexpr size_t kStoredLines = 200;
  static constexpr size_t kStoredBytes = 128 << 10;

  void Add(absl::string_view event);
  JobLogs ToProto() const;
  JobLogs ToStore() const;
  // Puts lines of the life before in front.
  void Load(const JobLogs& logs);
  // Grows with every line.
  uint64_t added() const { return added_; }

 private:
  std::deque<std::string> lines_;
  uint64_t added_ = 0;
};

}  // namespace shoal

#endif  // SHOAL_SCHEDULER_JOBS_EVENT_LOG_H_
