// CheckData: inputs, formats and columns.
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/job/job_check.h"

namespace shoal {
namespace {

void CheckInputs(const google::protobuf::RepeatedPtrField<Input>& inputs, const std::string& path,
                 const ReportJobError& report) {
  for (int i = 0; i < inputs.size(); ++i) {
    const Input& input = inputs[i];
    const std::string rows = absl::StrCat(path, ".", i, ".rows");
    if (input.rows_size() != 0 && input.rows_size() != 2) {
      report(rows, absl::StrCat("takes two numbers, [first, last), not ", input.rows_size()));
    } else if (input.rows_size() == 2 && input.rows(0) >= input.rows(1)) {
      report(rows,
             absl::StrCat("[", input.rows(0), ", ", input.rows(1), ") holds no record; the first must be smaller"));
    }
  }
}

// One byte, because files are cut at it without being decoded.
void CheckSeparator(const std::string& text, const std::string& path, const ReportJobError& report) {
  if (text.size() != 1) {
    report(path, "must be exactly one (ASCII) character");
  } else if (text[0] == '\n' || text[0] == '\r' || text[0] == '\0') {
    report(path, "cannot be a line end or NUL");
  }
}

void CheckFormat(const Format& format, const ReportJobError& report) {
  switch (format.kind_case()) {
    case Format::kCriteo:
      CheckSeparator(format.criteo().delimiter(), "data.format.criteo.delimiter", report);
      break;
    case Format::kCsv:
      CheckSeparator(format.csv().delimiter(), "data.format.csv.delimiter", report);
      if (!format.csv().quote().empty()) CheckSeparator(format.csv().quote(), "data.format.csv.quote", report);
      if (format.csv().quote() == format.csv().delimiter()) {
        report("data.format.csv.quote", "must differ from the delimiter");
      }
      break;
    case Format::kIdx:
      if (format.idx().images_marker().empty()) report("data.format.idx.images_marker", "must not be empty");
      break;
    default:
      break;
  }
}

void CheckSparse(const SparseFeature& feature, const std::string& path, const ReportJobError& report) {
  const int kinds = !feature.column().empty() + !feature.bucketize().empty() + (feature.cross_size() > 0);
  if (kinds != 1) {
    report(path, kinds == 0 ? "one of column, bucketize, cross must be set"
                            : "only one of column, bucketize, cross may be set");
    return;
  }
  if (feature.bucketize().empty() && feature.boundaries_size() > 0) {
    report(path + ".boundaries", "belongs to bucketize");
  }
  if (!feature.bucketize().empty() && feature.boundaries_size() == 0) {
    report(path, "bucketize needs boundaries");
  }
  for (int i = 1; i < feature.boundaries_size(); ++i) {
    if (feature.boundaries(i) > feature.boundaries(i - 1)) continue;
    report(absl::StrCat(path, ".boundaries.", i), absl::StrCat("boundaries must ascend: ", feature.boundaries(i),
                                                               " does not exceed ", feature.boundaries(i - 1)));
    break;
  }
  if (feature.cross_size() == 1) report(path + ".cross", "needs at least two names");
  for (int i = 0; i < feature.cross_size(); ++i) {
    if (feature.cross(i).empty()) report(absl::StrCat(path, ".cross.", i), "must not be empty");
  }
  if (!feature.separator().empty()) {
    if (feature.column().empty()) {
      report(path + ".separator", "belongs to column");
    } else {
      CheckSeparator(feature.separator(), path + ".separator", report);
    }
  }
}

void CheckColumns(const Data& data, const ReportJobError& report) {
  const std::string path = "data.columns";
  if (data.format().kind_case() != Format::kCsv) {
    if (data.has_columns()) report(path, "belongs to format csv; the other formats bring their own columns");
    return;
  }
  if (!data.has_columns()) return report("data", "format csv needs columns");
  const Columns& columns = data.columns();
  if (!columns.has_label()) report(path, "label is required");
  if (columns.dense_size() + columns.sparse_size() == 0) report(path, "at least one dense or sparse feature is needed");
  std::set<std::string> slots;
  for (int i = 0; i < columns.sparse_size(); ++i) {
    const std::string feature_path = absl::StrCat(path, ".sparse.", i);
    CheckSparse(columns.sparse(i), feature_path, report);
    const std::string slot = SlotName(columns.sparse(i));
    if (!slot.empty() && !slots.insert(slot).second) {
      report(feature_path, absl::StrCat("a second slot called ", slot, "; give it a name of its own"));
    }
  }
}

}  // namespace

std::string SlotName(const SparseFeature& feature) {
  if (!feature.name().empty()) return feature.name();
  if (!feature.column().empty()) return feature.column();
  if (!feature.bucketize().empty()) return feature.bucketize() + "_bucket";
  return absl::StrJoin(feature.cross(), "_x_");
}

void CheckData(const Data& data, const ReportJobError& report) {
  CheckInputs(data.train(), "data.train", report);
  CheckInputs(data.eval(), "data.eval", report);
  if (data.format().kind_case() == Format::KIND_NOT_SET) return;  // reported by the reader
  if (data.format().has_synthetic()) {
    constexpr absl::string_view kNoFiles = "format synthetic makes its own examples; remove the paths";
    if (data.train_size() > 0) report("data.train", kNoFiles);
    if (data.eval_size() > 0) report("data.eval", kNoFiles);
  } else if (data.train_size() == 0) {
    report("data.train", "at least one training input is needed");
  }
  CheckFormat(data.format(), report);
  CheckColumns(data, report);
}

}  // namespace shoal
