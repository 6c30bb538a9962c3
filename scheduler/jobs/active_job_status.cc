// What others see of a job.
#include <algorithm>
#include <map>

#include "scheduler/jobs/active_job.h"
#include "scheduler/jobs/job_check.h"

namespace shoal {

JobConfig ActiveJob::Config() const {
  JobConfig config;
  *config.mutable_job() = job();
  *config.mutable_plan() = stored_.plan();
  return config;
}

JobView ActiveJob::View() const {
  JobView view;
  view.set_job(id());
  view.set_run(run());
  view.set_state(state());
  partitions_.FillView(&view);
  view.set_live_version(live_version_);
  view.set_next_lane(next_lane_);
  for (const auto& [id, lane] : live_.lanes()) {
    LaneClock* const clock = view.add_lanes();
    clock->set_lane(id);
    clock->set_clock(lane.clock);
  }
  return view;
}

// asp and ssp: until the owners of all partitions have reported after a restart, what was handed in before it.
uint64_t ActiveJob::SplitsDone() const {
  if (ledger_ == nullptr) return handed_in_;
  return std::max(ledger_->splits_done(), phase_ == Phase::kResume && !bsp() ? handed_in_ : 0);
}

JobStatus ActiveJob::Status(bool sums) const {
  if (stored_.has_final_status()) {
    JobStatus status = stored_.final_status();
    if (!sums) {
      status.clear_train();
      status.clear_eval();
    }
    return status;
  }
  JobStatus status;
  status.set_job(id());
  status.set_name(job().name());
  status.set_state(state());
  status.set_reason(reason_);
  status.set_version(version_);
  status.set_passes(job().data().passes());
  status.set_splits(stored_.plan().train().splits_size() * uint64_t{job().data().passes()});
  status.set_checkpoint(stored_.checkpoint());
  status.set_sync(SyncName(job()));
  if (ledger_ != nullptr) {
    const uint64_t splits = std::max(1, stored_.plan().train().splits_size());
    const uint64_t reached = std::min<uint64_t>(SplitsDone() / splits, job().data().passes() - 1);
    status.set_pass(static_cast<uint32_t>(std::max(ledger_->current_pass(), bsp() ? 0 : reached)));
    status.set_splits_done(SplitsDone());
  }
  if (rounds_ != nullptr) status.set_rounds(std::max(rounds_applied_, rounds_->CommonRounds()));
  const absl::Duration ran = RanFor();
  status.set_seconds(absl::ToDoubleSeconds(ran));
  if (metrics_ != nullptr) {
    metrics_->Fill(sums, evaluation_ != nullptr && evaluation_->splits_in_all() > 0, &status);
    const uint64_t own = metrics_->examples() - std::min(metrics_->examples(), metrics_->examples_before());
    if (ran > absl::ZeroDuration()) status.set_examples_per_second(own / absl::ToDoubleSeconds(ran));
  }
  recoveries_.Fill(&status);
  status.set_partitions_restoring(partitions_.map().CountLost());
  status.set_partitions_moving(partitions_.CountMoving());
  if (job().replicas() > 1) status.set_partitions_without_backup(partitions_.map().CountWithoutBackup());
  // Lanes leave before a job ends: then the share says how many the worker had at most.
  if (state() == RUNNING) {
    std::map<std::string, uint32_t> lanes;
    for (const auto& [id, lane] : live_.lanes()) {
      const Process* const process = context_.members->Find(lane.thread.process);
      if (process != nullptr) ++lanes[process->info.name()];
    }
    for (WorkerShare& share : *status.mutable_workers()) share.set_lanes(lanes[share.worker()]);
  }
  if (state() == SUCCEEDED && cycle_.has_value()) {
    for (const auto& [table, digest] : cycle_->digests) *status.add_digests() = digest;
  }
  return status;
}

}  // namespace shoal
