// Learning-rate schedules as functions of examples applied.
#ifndef SHOAL_SERVER_OPTIMIZER_SCHEDULE_H_
#define SHOAL_SERVER_OPTIMIZER_SCHEDULE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "proto/job.pb.h"

namespace shoal {

// Names a field that makes the schedule meaningless: a length of 0, boundaries that don't ascend.
absl::Status CheckSchedule(const Schedule& schedule);

// Factor on the learning rate when `examples` were applied: examples / warmup during warm-up, then the schedule proper
// as a function of examples - warmup. REQUIRES: CheckSchedule is OK.
float ScheduleFactor(const Schedule& schedule, uint64_t examples);

}  // namespace shoal

#endif  // SHOAL_SERVER_OPTIMIZER_SCHEDULE_H_
