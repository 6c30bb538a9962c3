#include "scheduler/jobs/event_log.h"

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace shoal {

void EventLog::Add(absl::string_view event) {
  if (lines_.size() == kMaxLines) lines_.pop_front();
  lines_.push_back(absl::StrCat(absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::Now(), absl::UTCTimeZone()), " ",
                                event.substr(0, kMaxLineBytes)));
}

JobLogs EventLog::ToProto() const {
  JobLogs logs;
  for (const std::string& line : lines_) logs.add_lines(line);
  return logs;
}

}  // namespace shoal
