// Every file of ../shared/data/messy: which rows it gives, or which error.
#include <catch2/catch.hpp>
#include <filesystem>
#include <set>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "worker/data/test_util.h"

namespace shoal {
namespace {

struct BadCase {
  uint64_t line, offset;
  const char* field;
  const char* value;
  const char* expected;  // part of what the message says would have been right
};

struct MessyCase {
  const char* file;
  const char* format;
  const char* error;          // part of the status when the file cannot be planned at all; "" when it can
  std::vector<float> labels;  // of the rows; longer lists are given by their length
  uint64_t rows;
  std::vector<BadCase> bad;
};

constexpr char kCriteo[] = "format { criteo {} }";
constexpr char kLibsvm[] = "format { libsvm {} }";
constexpr char kXmc[] = "format { xmc {} }";
constexpr char kFeature[] = "index:value";
constexpr char kFinite[] = "a finite number";
constexpr char kFirst[] = "a number before the first index:value";
constexpr char kOneLabel[] = "one number (several labels are read with format xmc)";

const std::vector<MessyCase>& Cases() {
  static const auto& cases = *new std::vector<MessyCase>{
      // Fields whose separators were stripped are missing ones.
      {"criteo_1000_trailing_tabs_stripped.tsv", kCriteo, "", {}, 1000, {}},
      // Line 2 lacks its last field and line 14 the last three, which reads as missing; categories are opaque, so any
      // text is one (lines 9 to 11); line 12 is blank.
      {"derived_criteo_mutations.tsv",
       kCriteo,
       "",
       {0, 0, 0, 0, 0, 0},
       6,
       {{3, 506, "number 41", "extra", "a row of 40 fields"},
        {4, 749, "number 2", "0  893   4392  0 0 0  0   68fd1e64 2c16a946",
         "a row of 40 fields, this one has 1: is data.format.criteo.delimiter"},
        {5, 969, "label", "2", "0 or 1"},
        {6, 1190, "label", "", "0 or 1"},
        {7, 1417, "I3", "1.5", "an integer"},
        {8, 1638, "I3", "99999999999999999999", "an integer of at most 64 bits"},
        {13, 2584, "label", "", "0 or 1"}}},
      {"derived_criteo_truncated_mid_row.tsv",
       kCriteo,
       "",
       {0, 0, 0, 0, 0},
       5,
       {{6, 1193, "C9", "", "this one has 22 and seems to be cut off"}}},
      {"dmlc_test_excess_decimal_digits.libsvm", kLibsvm, "", {0}, 1, {}},
      {"issue_deepdetect361_xlearn242_label_only.libsvm", kLibsvm, "", {0, 1, 1, 1}, 4, {}},
      {"issue_dmlc555_shard_a.libsvm", kLibsvm, "", {1, 0}, 2, {}},
      {"issue_dotnet4689_index_over_int32.libsvm",
       kLibsvm,
       "",
       {1, 0, 1, 0},
       4,
       {{5, 88, "index", "-1", "an integer of digits only"}}},
      {"issue_libsvmdata6_space_after_colon.libsvm",
       kLibsvm,
       "",
       {1},
       1,
       {{1, 0, "value of index \"63\"", "", kFinite}}},
      {"issue_sklearn4562_empty_labelset.svm",
       kLibsvm,
       "",
       {},
       0,
       {{1, 0, "label", "31,33,67", kOneLabel},
        {2, 22, "label", "1:0.251310", kFirst},
        {3, 40, "label", "44,65,93", kOneLabel}}},
      {"issue_sklearn4562_empty_labelset.svm",
       kXmc,
       "line 1, byte offset 0: field header: value \"31,33,67 1:0.25 2:0.5\": expected three integers",
       {},
       0,
       {}},
      {"issue_sofiaml1_qid_only.libsvm", kLibsvm, "", {0, 1, 0}, 3, {}},
      {"issue_tmnt1_fastfm66_unsorted_and_duplicate_index.libsvm",
       kLibsvm,
       "",
       {1},
       1,
       {{2, 22, "index", "3", "each index at most once"}}},
      {"issue_vw4635_trailing_blank_lines.libsvm", kLibsvm, "", {1}, 1, {}},
      {"issue_xgboost4356_nan_value.libsvm",
       kLibsvm,
       "",
       {},
       0,
       {{1, 0, "value of index \"2\"", "nan", kFinite},
        {2, 18, "value of index \"1\"", "NaN", kFinite},
        {3, 37, "value of index \"2\"", "inf", kFinite},
        {4, 49, "value of index \"3\"", "-inf", kFinite}}},
      {"issue_xlearn157_segv_first_line.libfm", kLibsvm, "", {1}, 1, {}},
      {"ml100k_u.data.pipe_sep_with_header",
       R"(format { csv { header: true delimiter: "|" } } columns { label { column: "rating" } sparse { column: "user" }
          sparse { column: "item" } dense { column: "timestamp" } })",
       "",
       {},
       100000,
       {}},
      {"ml100k_u.data.pipe_sep_with_header",
       R"(format { csv { header: true delimiter: "|" } } columns { label { column: "ratings" } })",
       "data.columns.label: ",
       {},
       0,
       {}},
      {"svmlight_invalid.txt", kLibsvm, "", {2, 3}, 2, {{1, 0, "label", "python", kFinite}}},
      {"svmlight_multilabel.txt",
       kLibsvm,
       "",
       {2},
       1,
       {{2, 40, "label", "1,0", kOneLabel}, {4, 82, "label", "2:3.5", kFirst}, {5, 95, "label", "1,2", kOneLabel}}},
      {"svmlight_multilabel.txt", kXmc, "value \"# multilabel dataset in SVMlight format\"", {}, 0, {}},
      {"vw_cb_test_nonewline.ldf",
       kLibsvm,
       "",
       {},
       0,
       {{1, 0, "label", "shared", kFinite},
        {2, 17, "label", "0:1.0:0.5", kFirst},
        {3, 41, "label", "|", kFinite},
        {4, 56, "label", "|", kFinite},
        {6, 72, "label", "|", kFinite},
        {7, 87, "label", "0:0.0:0.5", kFirst},
        {9, 112, "label", "|", kFinite},
        {10, 127, "label", "|", kFinite}}},
      {"vw_csv_quoted.csv",
       R"(format { csv { header: true quote: "\"" } } columns { label { column: "label" positive: "1" }
          sparse { column: "name" } id: "name" })",
       "",
       {1, 0, 1, 0, 1},
       5,
       {}},
      {"vw_csv_test.csv",
       R"(format { csv { header: true quote: "\"" } } columns { label { column: "label" }
          dense { column: "feature_a" } })",
       "",
       {1, -1, 1, -1, 1, -1, 1, -1, 1, -1},
       10,
       {}},
      {"vw_malformed.dat",
       kLibsvm,
       "",
       {},
       0,
       {{1, 0, "feature", "|", kFeature},
        {2, 11, "feature", "|", kFeature},
        {3, 21, "feature", "|", kFeature},
        {4, 32, "feature", "|", kFeature},
        {5, 42, "feature", "|", kFeature},
        {6, 53, "feature", "|", kFeature},
        {7, 63, "feature", "|", kFeature},
        {8, 74, "feature", "|", kFeature},
        {9, 84, "feature", "|", kFeature},
        {10, 95, "feature", "|", kFeature},
        {11, 105, "feature", "|", kFeature}}},
      {"vw_single_empty_lines.txt", kLibsvm, "", {}, 0, {{1, 0, "feature", "|", kFeature}}},
  };
  return cases;
}

void Check(const MessyCase& messy, const std::string& path) {
  INFO(messy.file << " read with " << messy.format);
  const AllRows all = ReadAll(MakeData(messy.format, path));
  if (*messy.error != '\0') {
    INFO(all.status.ToString());
    CHECK(all.status.code() == absl::StatusCode::kInvalidArgument);
    CHECK(absl::StrContains(all.status.message(), messy.error));
    CHECK(absl::StrContains(all.status.message(), path));
    return;
  }
  REQUIRE(all.status == absl::OkStatus());
  CHECK(all.rows.size() == messy.rows);
  CHECK(all.records == messy.rows + messy.bad.size());
  for (size_t i = 0; i < messy.labels.size(); ++i) CHECK(all.rows.at(i).label == messy.labels[i]);
  REQUIRE(all.bad.size() == messy.bad.size());
  for (size_t i = 0; i < messy.bad.size(); ++i) {
    const BadCase& bad = messy.bad[i];
    CHECK(all.bad[i].file == path);
    CHECK(all.bad[i].offset == bad.offset);
    const std::string start = absl::StrCat(path, ": line ", bad.line, ", byte offset ", bad.offset, ": field ",
                                           bad.field, ": value \"", bad.value);
    INFO(all.bad[i].message);
    CHECK(absl::StartsWith(all.bad[i].message, start));
    CHECK(absl::StrContains(all.bad[i].message, bad.expected));
  }
}

}  // namespace

TEST_CASE("Messy files: each ends in the right rows or in errors that say where and why", "[data][unit]") {
  const std::string directory = SharedData("messy");
  if (directory.empty()) return;
  std::set<std::string> covered;
  for (const MessyCase& messy : Cases()) {
    Check(messy, absl::StrCat(directory, "/", messy.file));
    covered.insert(messy.file);
  }
  for (const auto& entry : std::filesystem::directory_iterator(directory)) {
    INFO(entry.path());
    CHECK(covered.count(entry.path().filename().string()) == 1);
  }
}

TEST_CASE("Messy files: stripped tabs shift no column", "[data][unit]") {
  const std::string stripped = SharedData("messy/criteo_1000_trailing_tabs_stripped.tsv");
  const std::string original = SharedData("criteo/kaggle_first10k_train.tsv.gz");
  if (stripped.empty() || original.empty()) return;
  const AllRows left = ReadAll(MakeData(kCriteo, stripped));
  Data data = MakeData(kCriteo, original);
  data.mutable_train(0)->add_rows(0);
  data.mutable_train(0)->add_rows(1000);
  const AllRows right = ReadAll(data);
  REQUIRE(left.rows.size() == 1000);
  REQUIRE(right.rows.size() == 1000);
  for (size_t i = 0; i < 1000; ++i) REQUIRE(left.rows[i].SameContent(right.rows[i]));
}

}  // namespace shoal
