// What all partitions agree on.
#ifndef SHOAL_SCHEDULER_LEDGER_INTERSECT_H_
#define SHOAL_SCHEDULER_LEDGER_INTERSECT_H_

#include <cstdint>
#include <vector>

#include "base/done_set.h"
#include "proto/scheduler.pb.h"

namespace shoal {

// The splits below `limit` that are done in every one of the partitions.
DoneSet Intersect(const std::vector<PartitionDone>& partitions, uint64_t limit);

}  // namespace shoal

#endif  // SHOAL_SCHEDULER_LEDGER_INTERSECT_H_
