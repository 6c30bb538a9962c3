// A job's input as its lanes see it: splits that can be opened and read batch by batch, always with the same result.
#ifndef SHOAL_WORKER_DATA_DATA_SET_H_
#define SHOAL_WORKER_DATA_DATA_SET_H_

#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/job.pb.h"
#include "proto/plan.pb.h"
#include "worker/data/batch.h"
#include "worker/data/labels.h"

namespace shoal {

enum class InputKind { kTrain, kEval };

// Looks at the files: expands globs, decompresses, counts, cuts into splits (data.split_bytes; `rows` ranges become
// byte ranges; csv boundaries are moved to true record starts, one scan). Without data.split_bytes the size of a split
// is a function of the input and of batch_size (records; 0: not known). Paths must be absolute. Fails with file and
// reason.
absl::StatusOr<InputPlan> PlanInputs(const Data& data, InputKind kind, uint64_t batch_size = 0,
                                     Labels labels = Labels::kPresent);

// Names of dense values and slots, and the kind of label. Needs the plan because some of it stands in the files (csv
// columns, number of labels); every column that the job names must exist.
absl::StatusOr<FeatureSchema> MakeSchema(const Data& data, const InputPlan& plan, Labels labels = Labels::kPresent);

// Reads one split. Not thread-safe; owned by one lane.
class SplitReader {
 public:
  virtual ~SplitReader() = default;
  // Clears *batch and fills it with the next records, at most `max_records` (good and bad ones counted). Sets
  // batch->end_of_split when no record follows; an empty split gives one batch with begin == end and end_of_split.
  // Errors are those of reading (I/O, damaged compression), never of single records: those are listed in batch->bad.
  virtual absl::Status Next(uint64_t max_records, Batch* batch) = 0;
};

struct DataSetOptions {
  uint64_t seed = 1;
  bool shuffle = true;         // false: file order, splits and records (evaluation, prediction)
  bool binary_labels = false;  // a label outside [0, 1] is a bad record (the loss is binary cross-entropy)
  Labels labels = Labels::kPresent;
  bool want_ids = false;  // fill Batch::ids from data.columns.id (row number in the input where there is none)
};

// Thread-safe: lanes open splits concurrently.
class DataSet {
 public:
  virtual ~DataSet() = default;
  // Compressed files are decompressed once into unlinked scratch files (TMPDIR, else /tmp).
  static absl::StatusOr<std::unique_ptr<DataSet>> Open(const Data& data, const InputPlan& plan,
                                                       const FeatureSchema& schema, const DataSetOptions& options);
  // Opens the split at `position` of the order of `pass` (shuffle off: the plan's order) such that the next record is
  // number `first_record`. INVALID_ARGUMENT when position is out of range.
  virtual absl::StatusOr<std::unique_ptr<SplitReader>> OpenSplit(uint64_t pass, uint64_t position,
                                                                 uint64_t first_record) = 0;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_DATA_DATA_SET_H_
