#ifndef SHOAL_SCHEDULER_JOBS_EVENT_LOG_H_
#define SHOAL_SCHEDULER_JOBS_EVENT_LOG_H_

#include <cstddef>
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

  void Add(absl::string_view event);
  JobLogs ToProto() const;

 private:
  std::deque<std::string> lines_;
};

}  // namespace shoal

#endif  // SHOAL_SCHEDULER_JOBS_EVENT_LOG_H_
