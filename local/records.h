// The records of a job's input as the lanes of a job see them: what to look at when a batch was refused.
#ifndef SHOAL_LOCAL_RECORDS_H_
#define SHOAL_LOCAL_RECORDS_H_

#include <cstdint>
#include <functional>
#include <nlohmann/json_fwd.hpp>

#include "absl/status/status.h"
#include "proto/job.pb.h"

namespace shoal {

// Records [begin, end) of a split of a pass, numbered as in training: after shuffling.
struct RecordRange {
  uint64_t pass = 0;
  uint64_t split = 0;  // position in the pass's order
  uint64_t begin = 0;
  uint64_t end = ~uint64_t{0};  // at most to the end of the split
};

// Calls visit with one object per record, in order: {record, id, label or labels, dense: {name: value}, slots: {name:
// [key, ...]}, weights: {name: [...]} where not all are 1}, or {error} for a bad record, without a number of its own.
// Reads only the job's training input. OUT_OF_RANGE when the job has no such pass or split;
// INVALID_ARGUMENT when the range is empty.
absl::Status VisitRecords(const Job& job, const RecordRange& range,
                          const std::function<void(const nlohmann::ordered_json&)>& visit);

}  // namespace shoal

#endif  // SHOAL_LOCAL_RECORDS_H_
