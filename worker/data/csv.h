// Csv records: fields with quotes, and the columns that a job names compiled into steps.
#ifndef SHOAL_WORKER_DATA_CSV_H_
#define SHOAL_WORKER_DATA_CSV_H_

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "proto/job.pb.h"
#include "worker/data/labels.h"
#include "worker/data/record.h"

namespace shoal {

struct CsvDialect {
  char delimiter = ',';
  char quote = '"';  // '\0': none
  bool trim = false;
  std::string missing;  // stands for a missing value, besides the empty field; empty: nothing does
};

// Splits records into fields. A field that starts with the quote character ends at the next single one; a doubled one
// stands for itself. Elsewhere a quote is a character like others. Not thread-safe.
class CsvSplitter {
 public:
  explicit CsvSplitter(const CsvDialect& dialect) : dialect_(dialect) {}

  // False for a quote that is never closed and for text behind a closing quote. fields() is valid until the next call
  // and as long as `record` lives.
  bool Split(absl::string_view record, Problem* problem);
  const std::vector<absl::string_view>& fields() const { return fields_; }

 private:
  // Takes a quoted field off *rest, which starts with the quote.
  bool TakeQuoted(absl::string_view* rest, absl::string_view* field, Problem* problem);

  const CsvDialect& dialect_;
  std::vector<absl::string_view> fields_;
  std::deque<std::string> unescaped_;  // fields with doubled quotes; a deque keeps their addresses
  size_t unescaped_used_ = 0;
};

// Where the token of a feature comes from: a column as it is, or its bucket.
struct CsvToken {
  uint32_t column = 0;
  std::vector<double> boundaries;  // empty: as it is
};

struct CsvSparse {
  std::vector<CsvToken> parts;  // one, or those of a cross
  char separator = '\0';        // splits the field into several tokens; '\0': does not
};

struct CsvDense {
  uint32_t column = 0;
  bool log1p = false;
  float offset = 0, scale = 1, missing = 0;
};

// A job's columns with the positions that they have in one file.
struct CsvProgram {
  static constexpr uint32_t kNoColumn = ~0u;
  uint32_t label = kNoColumn;  // stays so without labels
  std::vector<std::string> positive;
  std::vector<CsvDense> dense;
  std::vector<CsvSparse> sparse;
  uint32_t id = kNoColumn;
};

// Checks data.columns against the column names of the file `path`, which were cut at `delimiter`; errors name the field
// and the nearest column.
absl::StatusOr<CsvProgram> CompileColumns(const Columns& columns, const std::vector<std::string>& names,
                                          absl::string_view path, char delimiter, Labels labels);

// The slot's name: as given, else made from what it is.
std::string SparseName(const SparseFeature& feature);

}  // namespace shoal

#endif  // SHOAL_WORKER_DATA_CSV_H_
