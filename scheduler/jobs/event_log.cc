#include "scheduler/jobs/event_log.h"

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace shoal {

void EventLog::Add(absl::string_view event) {
  ++added_;
  if (lines_.size() == kMaxLines) lines_.pop_front();
  lines_.push_back(absl::StrCat(absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::Now(), absl::UTCTimeZone()), " ",
                                event.substr(0, kMaxLineBytes)));
}

JobLogs EventLog::ToProto() const {
  JobLogs logs;
  for (const std::string& line : lines_) logs.add_lines(line);
  return logs;
}

JobLogs EventLog::ToStore() const {
  size_t first = lines_.size(), bytes = 0;
  while (first > 0 && lines_.size() - first < kStoredLines && bytes + lines_[first - 1].size() <= kStoredBytes) {
    bytes += lines_[--first].size();
  }
  JobLogs logs;
  for (size_t i = first; i < lines_.size(); ++i) logs.add_lines(lines_[i]);
  return logs;
}

void EventLog::Load(const JobLogs& logs) { lines_.insert(lines_.begin(), logs.lines().begin(), logs.lines().end()); }

}  // namespace shoal
