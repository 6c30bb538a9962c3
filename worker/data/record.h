// What stands between a file's bytes and a batch: records, and the interfaces that cut and parse them.
#ifndef SHOAL_WORKER_DATA_RECORD_H_
#define SHOAL_WORKER_DATA_RECORD_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "worker/data/batch.h"

namespace shoal {

// A longer text record is a bad record: usually a quote that is never closed. Bounds the memory of a reader.
constexpr uint64_t kMaxRecordBytes = 16 << 20;

// One record as it stands in the file.
struct RawRecord {
  uint64_t offset = 0;     // of its first byte in the decompressed file; synthetic: the row
  absl::string_view text;  // without line end; of an overlong record only the first bytes
  bool overlong = false;
};

// Cuts a byte range of one file into records, in file order. Not thread-safe; owned by one reader.
class RecordSource {
 public:
  virtual ~RecordSource() = default;
  // The next record whose first byte lies in the range; false at its end. `text` is valid until the next call.
  virtual absl::StatusOr<bool> Next(RawRecord* record) = 0;
};

// Why a record is bad.
struct Problem {
  std::string field;     // name of the field, e.g. "I3" or "value of index 7"
  std::string value;     // as it stands in the file
  std::string expected;  // what would have been right
};

// Turns records of one file into rows. Not thread-safe; owned by one reader.
class RecordParser {
 public:
  virtual ~RecordParser() = default;
  // Appends one row's keys, weights, dense values, label and (when asked for and the format has one) id; the caller
  // appends the offsets. On false, fills *problem; what was appended to the batch is dropped by the caller.
  virtual bool Parse(const RawRecord& record, Batch* batch, Problem* problem) = 0;
};

// For `return Bad(problem, ...)` in parsers.
inline bool Bad(Problem* problem, absl::string_view field, absl::string_view value, absl::string_view expected) {
  problem->field.assign(field.data(), field.size());
  problem->value.assign(value.data(), value.size());
  problem->expected.assign(expected.data(), expected.size());
  return false;
}

}  // namespace shoal

#endif  // SHOAL_WORKER_DATA_RECORD_H_
