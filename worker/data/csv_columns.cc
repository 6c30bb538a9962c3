#include <algorithm>
#include <cmath>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "base/text_distance.h"
#include "worker/data/csv.h"
#include "worker/data/format.h"
#include "worker/data/text.h"

namespace shoal {
namespace {

// Looks up names of one file's columns.
struct ColumnNames {
  const std::vector<std::string>& names;
  absl::string_view path;
  char delimiter;

  std::string Advice(const std::string& name) const {
    if (names.size() == 1) {
      return absl::StrCat("its first line is one field, ", Quoted(names[0]), ": ",
                          DelimiterAdvice("data.format.csv.delimiter", delimiter));
    }
    const std::string nearest = NearestName(name, names);
    if (!nearest.empty()) return absl::StrCat("did you mean ", Quoted(nearest), "?");
    constexpr size_t kShown = 20;
    const size_t shown = std::min(names.size(), kShown);
    return absl::StrCat("its columns are ", absl::StrJoin(names.begin(), names.begin() + shown, ", "),
                        shown < names.size() ? absl::StrCat(" and ", names.size() - shown, " more") : "");
  }

  absl::StatusOr<uint32_t> Find(const std::string& name, absl::string_view field) const {
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat(field, ": ", path, " has no column ", Quoted(name), "; ", Advice(name)));
    }
    if (std::find(found + 1, names.end(), name) != names.end()) {
      return absl::InvalidArgumentError(absl::StrCat(field, ": ", path, " has several columns ", Quoted(name)));
    }
    return static_cast<uint32_t>(found - names.begin());
  }
};

absl::Status CheckBoundaries(const SparseFeature& feature, const std::string& field) {
  if (feature.bucketize().empty() != feature.boundaries().empty()) {
    return absl::InvalidArgumentError(absl::StrCat(field, ": bucketize and boundaries belong together"));
  }
  for (int i = 0; i < feature.boundaries_size(); ++i) {
    if (!std::isfinite(feature.boundaries(i)) || (i > 0 && feature.boundaries(i) <= feature.boundaries(i - 1))) {
      return absl::InvalidArgumentError(absl::StrCat(field, ".boundaries[", i, "]: ", feature.boundaries(i),
                                                     ": expected finite numbers in ascending order"));
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<CsvToken> CompileToken(const SparseFeature& feature, const ColumnNames& names,
                                      const std::string& field) {
  CsvToken token;
  const bool bucket = !feature.bucketize().empty();
  SHOAL_ASSIGN_OR_RETURN(token.column, names.Find(bucket ? feature.bucketize() : feature.column(), field));
  token.boundaries.assign(feature.boundaries().begin(), feature.boundaries().end());
  return token;
}

// One member of a cross: another feature of the list by its name, else a column.
absl::StatusOr<CsvToken> CompileMember(const std::string& member, const Columns& columns, const ColumnNames& names,
                                       const std::string& field) {
  for (const SparseFeature& other : columns.sparse()) {
    if (other.cross().empty() && SparseName(other) == member) {
      if (!other.separator().empty()) {
        return absl::InvalidArgumentError(
            absl::StrCat(field, ": ", Quoted(member), " has several values (separator) and cannot be crossed"));
      }
      return CompileToken(other, names, field);
    }
  }
  CsvToken token;
  SHOAL_ASSIGN_OR_RETURN(token.column, names.Find(member, field));
  return token;
}

absl::StatusOr<CsvSparse> CompileSparse(const SparseFeature& feature, const Columns& columns, const ColumnNames& names,
                                        const std::string& field) {
  const int kinds = !feature.column().empty() + !feature.bucketize().empty() + !feature.cross().empty();
  if (kinds != 1) {
    return absl::InvalidArgumentError(absl::StrCat(field, ": expected exactly one of column, bucketize, cross"));
  }
  SHOAL_RETURN_IF_ERROR(CheckBoundaries(feature, field));
  CsvSparse sparse;
  SHOAL_ASSIGN_OR_RETURN(sparse.separator, OneCharacter(feature.separator(), '\0', absl::StrCat(field, ".separator")));
  if (feature.cross().empty()) {
    if (sparse.separator != '\0' && feature.column().empty()) {
      return absl::InvalidArgumentError(absl::StrCat(field, ".separator: only a plain column can have several values"));
    }
    SHOAL_ASSIGN_OR_RETURN(CsvToken token, CompileToken(feature, names, field));
    sparse.parts.push_back(std::move(token));
    return sparse;
  }
  if (sparse.separator != '\0') {
    return absl::InvalidArgumentError(absl::StrCat(field, ".separator: only a plain column can have several values"));
  }
  if (feature.cross_size() < 2) {
    return absl::InvalidArgumentError(absl::StrCat(field, ".cross: expected at least two names"));
  }
  for (const std::string& member : feature.cross()) {
    SHOAL_ASSIGN_OR_RETURN(CsvToken token, CompileMember(member, columns, names, absl::StrCat(field, ".cross")));
    sparse.parts.push_back(std::move(token));
  }
  return sparse;
}

}  // namespace

std::string SparseName(const SparseFeature& feature) {
  if (!feature.name().empty()) return feature.name();
  if (!feature.column().empty()) return feature.column();
  if (!feature.bucketize().empty()) return absl::StrCat(feature.bucketize(), "_bucket");
  return absl::StrJoin(feature.cross(), "_x_");
}

absl::StatusOr<CsvProgram> CompileColumns(const Columns& columns, const std::vector<std::string>& names,
                                          absl::string_view path, char delimiter, Labels labels) {
  const ColumnNames lookup{names, path, delimiter};
  CsvProgram program;
  if (labels == Labels::kPresent) {
    if (columns.label().column().empty()) {
      return absl::InvalidArgumentError("data.columns.label: format csv needs the name of the label's column");
    }
    SHOAL_ASSIGN_OR_RETURN(program.label, lookup.Find(columns.label().column(), "data.columns.label"));
  }
  program.positive.assign(columns.label().positive().begin(), columns.label().positive().end());
  for (int i = 0; i < columns.dense_size(); ++i) {
    const DenseColumn& column = columns.dense(i);
    CsvDense dense;
    SHOAL_ASSIGN_OR_RETURN(dense.column, lookup.Find(column.column(), absl::StrCat("data.columns.dense[", i, "]")));
    dense.log1p = column.transform() == DenseColumn::LOG1P;
    dense.offset = column.offset();
    dense.scale = column.scale() == 0 ? 1.f : column.scale();  // 0 is proto's "not set"; it would erase the column
    dense.missing = column.missing();
    program.dense.push_back(dense);
  }
  absl::flat_hash_set<std::string> slots;
  for (int i = 0; i < columns.sparse_size(); ++i) {
    const std::string field = absl::StrCat("data.columns.sparse[", i, "]");
    SHOAL_ASSIGN_OR_RETURN(CsvSparse sparse, CompileSparse(columns.sparse(i), columns, lookup, field));
    program.sparse.push_back(std::move(sparse));
    if (!slots.insert(SparseName(columns.sparse(i))).second) {
      return absl::InvalidArgumentError(absl::StrCat(field, ": a second feature is called ",
                                                     Quoted(SparseName(columns.sparse(i))), "; give it a name"));
    }
  }
  if (!columns.id().empty()) {
    SHOAL_ASSIGN_OR_RETURN(program.id, lookup.Find(columns.id(), "data.columns.id"));
  }
  return program;
}

}  // namespace shoal
