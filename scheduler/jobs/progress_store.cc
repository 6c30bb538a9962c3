#include "scheduler/jobs/progress_store.h"

#include <utility>

namespace shoal {
namespace {

constexpr absl::Duration kInterval = absl::Seconds(1);
// The histogram of an AUC may take half a megabyte.
constexpr uint64_t kBytesPerSecond = 128 << 10;

}  // namespace

void ProgressStore::SaveLog(uint64_t job, const EventLog& log) {
  if (log.added() == stored_lines_) return;
  stored_lines_ = log.added();
  state_.PutLog(job, log.ToStore());
}

void ProgressStore::Save(uint64_t job, absl::Duration now, const EventLog& log, const JobMetrics* metrics,
                         const Recoveries& recoveries, absl::Duration ran, uint64_t splits_done) {
  if (now < due_) return;
  due_ = now + kInterval;
  SaveLog(job, log);
  if (metrics == nullptr || !std::exchange(changed_, false)) return;
  StoredProgress progress;
  metrics->Save(&progress);
  recoveries.Save(&progress);
  progress.set_splits_done(splits_done);
  progress.set_ran_seconds(absl::ToDoubleSeconds(ran));
  due_ += absl::Seconds(static_cast<int64_t>(progress.ByteSizeLong() / kBytesPerSecond));
  state_.PutProgress(job, progress);
}

void ProgressStore::End(uint64_t job, const EventLog& log) {
  state_.EraseProgress(job);
  SaveLog(job, log);
}

}  // namespace shoal
