#!/usr/bin/env bash
# Waits and deadlines use steady clocks only: a wall clock that jumps must change nothing. The wall clock may be read where
# people or other machines are told the time; those files are listed here with the reason.
set -euo pipefail
cd "$(dirname "$0")/../.."
allowed=(
  base/mutex.h                            # a comment that says why not
  cli/                                    # names of output files, if anything
  local/connection.cc                     # a request id that is unique
  local/run_folder.cc                     # name of a folder
  local/spot_notices.cc                   # clouds announce times of day; clamped to what they promise
  scheduler/jobs/active_job_checkpoint.cc # a checkpoint says when it was made
  scheduler/jobs/event_log.cc             # log lines say when
  server/rpc/parameter_service.cc         # gRPC tells a call's deadline as a time of day; clamped
)
pattern='absl::Now\(|system_clock|GetCurrentTimeNanos|std::time\(|gettimeofday|CLOCK_REALTIME|wait_until|WaitForNotificationWithDeadline'
found=$(grep -rnE "$pattern" --include='*.cc' --include='*.h' base proto kernels server worker scheduler local cli |
  grep -v '_test\.cc:' || true)
for path in "${allowed[@]}"; do found=$(grep -v "^$path" <<<"$found" || true); done
if [[ -n "$found" ]]; then
  echo "the wall clock is used here; use Clock::Steady() (base/clock.h) or DeadlineAfter (proto/rpc/rpc_options.h):"
  echo "$found"
  exit 1
fi
