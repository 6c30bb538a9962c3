#include "worker/data/datagen.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <fstream>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/metrics.h"
#include "base/status_macros.h"
#include "worker/data/criteo.h"
#include "worker/data/teacher.h"

namespace shoal {
namespace {

constexpr uint32_t kCriteoIntegers = 13;
constexpr uint32_t kCriteoCategories = 26;
constexpr uint64_t kExactRows = 4 << 20;  // pairs kept in memory for the exact AUC: 32 MiB
constexpr size_t kFlushBytes = 1 << 20;
constexpr uint64_t kMaxLibsvmColumnIds = uint64_t{1} << 50;  // keeps indices below 2^63

// libsvm: buckets -1 .. of an integer column, the last index of the column for a missing value.
constexpr uint64_t kBucketIndices = 2048;  // buckets end at floor(ln(2^63)^2) = 1906

void AppendNumber(uint64_t value, std::string* text) {
  char digits[20];
  text->append(digits, std::to_chars(digits, digits + sizeof(digits), value).ptr);
}

void AppendSigned(int64_t value, std::string* text) {
  char digits[21];
  text->append(digits, std::to_chars(digits, digits + sizeof(digits), value).ptr);
}

void AppendCriteo(const Teacher& teacher, const SyntheticRow& row, std::string* text) {
  text->push_back(row.label ? '1' : '0');
  for (const int64_t x : row.integers) {
    text->push_back('\t');
    if (x != SyntheticRow::kMissingInteger) AppendSigned(x, text);
  }
  char buffer[16];
  for (uint32_t c = 0; c < row.ranks.size(); ++c) {
    text->push_back('\t');
    if (row.ranks[c] == SyntheticRow::kMissing) continue;
    const absl::string_view id = teacher.IdText(c, row.ranks[c], buffer);
    text->append(id.data(), id.size());
  }
  text->push_back('\n');
}

void AppendLibsvm(const Teacher& teacher, const SyntheticRow& row, std::string* text) {
  text->push_back(row.label ? '1' : '0');
  uint64_t base = 1;
  for (const int64_t x : row.integers) {
    const bool missing = x == SyntheticRow::kMissingInteger;
    text->push_back(' ');
    AppendNumber(base + (missing ? kBucketIndices - 1 : static_cast<uint64_t>(CriteoBucket(x) + 1)), text);
    text->append(":1");
    base += kBucketIndices;
  }
  for (const uint64_t rank : row.ranks) {
    text->push_back(' ');
    AppendNumber(base + (rank == SyntheticRow::kMissing ? teacher.ids_per_category() : rank), text);
    text->append(":1");
    base += teacher.ids_per_category() + 1;
  }
  text->push_back('\n');
}

// Sums what the teacher's score is made of.
class Scorer {
 public:
  void Add(const SyntheticRow& row) {
    ++score_.rows;
    score_.positives += row.label;
    const double p = row.label ? row.probability : 1 - row.probability;
    loss_ -= std::log(std::max(p, 1e-15));
    if (scored_.size() < kExactRows) scored_.emplace_back(row.probability, row.label);
    histogram_.Add(row.probability, row.label);
  }
  TeacherScore Finish() {
    score_.logloss = score_.rows == 0 ? std::nan("") : loss_ / static_cast<double>(score_.rows);
    score_.auc = scored_.size() == score_.rows ? ExactAuc(std::move(scored_)) : histogram_.Auc();
    return score_;
  }

 private:
  TeacherScore score_;
  double loss_ = 0;
  std::vector<std::pair<float, bool>> scored_;
  AucHistogram histogram_;
};

absl::StatusOr<SyntheticFormat> TeacherOptions(const DatagenOptions& options) {
  SyntheticFormat teacher = options.teacher;
  if (teacher.integers() == 0) teacher.set_integers(kCriteoIntegers);
  if (teacher.categories() == 0) teacher.set_categories(kCriteoCategories);
  if (options.format == DatagenFormat::kCriteo &&
      (teacher.integers() != kCriteoIntegers || teacher.categories() != kCriteoCategories)) {
    return absl::InvalidArgumentError(absl::StrCat("integers ", teacher.integers(), ", categories ",
                                                   teacher.categories(), ": format criteo has 13 and 26"));
  }
  if (teacher.integers() > 1024 || teacher.categories() > 1024) {
    return absl::InvalidArgumentError("integers, categories: expected at most 1024");
  }
  if (teacher.ids_per_category() > kMaxLibsvmColumnIds) {
    return absl::InvalidArgumentError(
        absl::StrCat("ids_per_category: ", teacher.ids_per_category(), ": expected at most ", kMaxLibsvmColumnIds));
  }
  return teacher;
}

}  // namespace

absl::StatusOr<TeacherScore> GenerateText(const DatagenOptions& options, std::ostream* out) {
  SHOAL_ASSIGN_OR_RETURN(const SyntheticFormat teacher_options, TeacherOptions(options));
  const Teacher teacher(teacher_options);
  Scorer scorer;
  SyntheticRow row;
  std::string text;
  for (uint64_t i = 0; i < options.rows; ++i) {
    teacher.MakeRow(options.first_row + i, &row);
    scorer.Add(row);
    if (options.format == DatagenFormat::kCriteo) {
      AppendCriteo(teacher, row, &text);
    } else {
      AppendLibsvm(teacher, row, &text);
    }
    if (text.size() < kFlushBytes && i + 1 < options.rows) continue;
    out->write(text.data(), static_cast<std::streamsize>(text.size()));
    text.clear();
    if (!out->good()) return absl::UnavailableError(absl::StrCat("cannot write row ", i, " of ", options.rows));
  }
  return scorer.Finish();
}

absl::StatusOr<TeacherScore> GenerateFile(const DatagenOptions& options, const std::string& path) {
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  if (!out) return absl::UnavailableError(absl::StrCat(path, ": cannot open for writing: ", std::strerror(errno)));
  SHOAL_ASSIGN_OR_RETURN(const TeacherScore score, GenerateText(options, &out));
  out.close();
  if (!out) return absl::UnavailableError(absl::StrCat(path, ": cannot write: ", std::strerror(errno)));
  return score;
}

}  // namespace shoal
