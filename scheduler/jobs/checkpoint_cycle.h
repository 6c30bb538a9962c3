#ifndef SHOAL_SCHEDULER_JOBS_CHECKPOINT_CYCLE_H_
#define SHOAL_SCHEDULER_JOBS_CHECKPOINT_CYCLE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "absl/types/optional.h"
#include "proto/checkpoint.pb.h"
#include "proto/scheduler.pb.h"

namespace shoal {

// A checkpoint in the making.
struct CheckpointCycle {
  CheckpointTask task;
  uint64_t sequence = 0;
  uint64_t rounds = 0;
  size_t writers = 0;                  // servers that write parts
  std::map<uint64_t, PartInfo> parts;  // by server
  std::map<std::string, TableDigest> digests;
};

// DATA_LOSS unless the parts hold each of `partitions` exactly once (servers that know different maps may both write
// one, or neither) and, in bsp, all of them were cut at one round: that of the task, if it names one.
absl::Status CheckParts(const CheckpointCycle& cycle, uint32_t partitions, bool bsp);

// Whether rounds progress beyond what they were at a time.
struct RoundWatch {
  absl::optional<absl::Duration> since;
  uint64_t rounds = 0;
  absl::Duration again;  // look at them then
};

// What the next checkpoint may build on; forgotten with the process, so that it begins with a full one.
struct DeltaChain {
  std::string parent;        // name of the newest one; empty: none
  uint64_t map_version = 0;  // when it was made: a server that got a partition since then cannot tell what has changed
  uint32_t deltas = 0;       // since the last full one
  uint32_t failed = 0;       // checkpoints in a row
};

}  // namespace shoal

#endif  // SHOAL_SCHEDULER_JOBS_CHECKPOINT_CYCLE_H_
