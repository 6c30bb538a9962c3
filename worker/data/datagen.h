// Writes the rows of the synthetic reader as text: what `shoal datagen` does.
#ifndef SHOAL_WORKER_DATA_DATAGEN_H_
#define SHOAL_WORKER_DATA_DATAGEN_H_

#include <cstdint>
#include <ostream>
#include <string>

#include "absl/status/statusor.h"
#include "proto/job.pb.h"

namespace shoal {

enum class DatagenFormat {
  kCriteo,  // TSV; the criteo reader with `integers: buckets` makes the same keys of it as the synthetic reader
  kLibsvm,  // index:1 for each category's id and each integer's bucket, 13 + 26 features in a row
};

struct DatagenOptions {
  DatagenFormat format = DatagenFormat::kCriteo;
  uint64_t first_row = 0;  // so that evaluation rows can follow the training rows of the same teacher
  uint64_t rows = 0;
  // Seed, interactions, ids_per_category of the teacher. `categories` and `integers` must be 26 and 13 (or 0, which
  // stands for them) with kCriteo; `rows` and `eval_rows` are not used.
  SyntheticFormat teacher;
};

// How well the teacher itself predicts the labels that it drew: no model can do better on average.
struct TeacherScore {
  uint64_t rows = 0;
  uint64_t positives = 0;
  double auc = 0;  // exact up to 4 Mi rows, from a histogram (within 1e-4) beyond; NaN for one class
  double logloss = 0;
};

// Writes options.rows lines; the score covers all of them. UNAVAILABLE when the stream fails, INVALID_ARGUMENT for
// options out of range.
absl::StatusOr<TeacherScore> GenerateText(const DatagenOptions& options, std::ostream* out);
// The same into a file, which it replaces.
absl::StatusOr<TeacherScore> GenerateFile(const DatagenOptions& options, const std::string& path);

}  // namespace shoal

#endif  // SHOAL_WORKER_DATA_DATAGEN_H_
