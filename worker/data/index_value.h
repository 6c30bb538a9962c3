// "index:value" lists, as libsvm and the extreme multi-label format have them.
#ifndef SHOAL_WORKER_DATA_INDEX_VALUE_H_
#define SHOAL_WORKER_DATA_INDEX_VALUE_H_

#include <cstdint>
#include <vector>

#include "absl/strings/string_view.h"
#include "worker/data/batch.h"
#include "worker/data/record.h"

namespace shoal {

// The one slot of these formats.
constexpr char kIndexSlot[] = "features";

// Parses the features of one row at a time. The token of a feature is the text of its index without leading zeros, so
// indices of any length keep their identity. Not thread-safe; owned by one parser.
class IndexValueParser {
 public:
  struct Limits {
    bool one_based = false;    // index 0 is an error
    bool skip_qid = false;     // "qid:..." is ignored
    uint64_t index_limit = 0;  // indices must be below it; 0: no limit
  };
  explicit IndexValueParser(const Limits& limits);

  // Appends the features to slot 0 of the batch. False for anything but index:value, an index that appears twice, and
  // a value that is not finite.
  bool Parse(absl::string_view features, Batch* batch, Problem* problem);

 private:
  // The usual form, "12:1" or "12:0.5" after spaces, looked at once. False, with nothing done, for any other: ParseOne
  // knows all forms and says what is wrong.
  bool ParsePlain(absl::string_view* rest, SlotColumn* column);
  bool ParseOne(absl::string_view token, Batch* batch, Problem* problem);
  // `value` is the index as a number when it has at most kMaxDigits digits.
  void NoticeOrder(absl::string_view index, uint64_t value);
  bool CheckDistinct(absl::string_view features, const SlotColumn& column, size_t first, Problem* problem);

  static constexpr size_t kMaxDigits = 19;  // all numbers of so many digits fit 64 bits

  const Limits limits_;
  const uint64_t slot_seed_;
  absl::string_view previous_;   // index before this one, to notice ascending order
  uint64_t previous_value_ = 0;  // its value, when it fits
  bool ascending_ = true;
  std::vector<uint64_t> sorted_;  // keys of a row whose indices are not in ascending order
};

// The next run of bytes other than blanks, removed from *rest; empty at its end.
inline absl::string_view NextToken(absl::string_view* rest) {
  size_t begin = 0;
  while (begin < rest->size() && ((*rest)[begin] == ' ' || (*rest)[begin] == '\t')) ++begin;
  size_t end = begin;
  while (end < rest->size() && (*rest)[end] != ' ' && (*rest)[end] != '\t') ++end;
  const absl::string_view token = rest->substr(begin, end - begin);
  rest->remove_prefix(end);
  return token;
}

}  // namespace shoal

#endif  // SHOAL_WORKER_DATA_INDEX_VALUE_H_
