#include "worker/data/datagen.h"

#include <catch2/catch.hpp>
#include <set>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "worker/data/test_util.h"

namespace shoal {
namespace {

DatagenOptions Options(DatagenFormat format, uint64_t rows, bool interactions) {
  DatagenOptions options;
  options.format = format;
  options.rows = rows;
  options.teacher.set_seed(7);
  options.teacher.set_interactions(interactions);
  return options;
}

}  // namespace

TEST_CASE("Datagen: the criteo text reads back as the synthetic reader's rows", "[data][unit]") {
  TempDir dir;
  DatagenOptions options = Options(DatagenFormat::kCriteo, 3000, GENERATE(false, true));
  options.first_row = 100;
  const auto score = GenerateFile(options, dir.Path("a.tsv"));
  REQUIRE(score.ok());
  const AllRows text = ReadAll(MakeData("format { criteo {} }", dir.Path("a.tsv")));
  REQUIRE(text.status == absl::OkStatus());
  CHECK(text.bad.empty());
  // Evaluation rows are drawn after the training rows.
  const std::string synthetic =
      absl::StrCat("format { synthetic { rows: 100 eval_rows: 3000 seed: 7 integers: 13 interactions: ",
                   options.teacher.interactions(), " } }");
  ReadOptions read;
  read.kind = InputKind::kEval;
  const AllRows generated = ReadAll(MakeData(synthetic, ""), read);
  REQUIRE(generated.status == absl::OkStatus());
  CHECK(generated.plan.records() == 3000);
  CHECK(generated.schema.slots_size() == 39);
  REQUIRE(text.rows.size() == 3000);
  REQUIRE(generated.rows.size() == 3000);
  uint64_t positives = 0;
  for (size_t i = 0; i < text.rows.size(); ++i) {
    REQUIRE(text.rows[i].keys == generated.rows[i].keys);
    REQUIRE(text.rows[i].label == generated.rows[i].label);
    positives += text.rows[i].label == 1;
  }
  CHECK(score->rows == 3000);
  CHECK(score->positives == positives);
}

TEST_CASE("Datagen: libsvm text has one distinct index per column", "[data][unit]") {
  TempDir dir;
  REQUIRE(GenerateFile(Options(DatagenFormat::kLibsvm, 2000, false), dir.Path("a.svm")).ok());
  const AllRows all = ReadAll(MakeData("format { libsvm { one_based: true } }", dir.Path("a.svm")));
  REQUIRE(all.status == absl::OkStatus());
  CHECK(all.bad.empty());
  REQUIRE(all.rows.size() == 2000);
  for (const Row& row : all.rows) REQUIRE(row.keys[0].size() == 39);
}

TEST_CASE("Datagen: a function of the seed alone; the teacher's score", "[data][unit]") {
  const bool interactions = GENERATE(false, true);
  std::ostringstream once, twice, other;
  const auto score = GenerateText(Options(DatagenFormat::kCriteo, 50000, interactions), &once);
  REQUIRE(score.ok());
  REQUIRE(GenerateText(Options(DatagenFormat::kCriteo, 50000, interactions), &twice).ok());
  CHECK(once.str() == twice.str());
  DatagenOptions options = Options(DatagenFormat::kCriteo, 50000, interactions);
  options.teacher.set_seed(8);
  REQUIRE(GenerateText(options, &other).ok());
  CHECK(once.str() != other.str());
  INFO("auc " << score->auc << " logloss " << score->logloss << " positives " << score->positives);
  CHECK(score->auc > 0.75);
  CHECK(score->auc < 0.97);
  CHECK(score->logloss < 0.57);
  CHECK(score->positives > 50000 / 8);
  CHECK(score->positives < 50000 / 2);
}

TEST_CASE("Datagen: options out of range and failing streams are errors", "[data][unit]") {
  TempDir dir;
  DatagenOptions options = Options(DatagenFormat::kCriteo, 10, false);
  CHECK(GenerateFile(options, dir.Path("none/a.tsv")).status().code() == absl::StatusCode::kUnavailable);
  std::ostringstream out;
  out.setstate(std::ios::badbit);
  CHECK(GenerateText(options, &out).status().code() == absl::StatusCode::kUnavailable);
  options.teacher.set_categories(3);
  CHECK(GenerateText(options, &out).status().code() == absl::StatusCode::kInvalidArgument);
}

TEST_CASE("Synthetic: ids of a category are distinct and follow a power law", "[data][unit]") {
  const AllRows all = ReadAll(
      MakeData("format { synthetic { rows: 20000 seed: 3 categories: 2 ids_per_category: 1000000000000 integers: 1 "
               "integer_features: BOTH } } split_bytes: 100000",
               ""));
  REQUIRE(all.status == absl::OkStatus());
  CHECK(all.plan.splits_size() == 52);  // 390 rows each
  REQUIRE(all.rows.size() == 20000);
  CHECK(all.schema.dense_size() == 1);
  REQUIRE(all.schema.slots_size() == 3);
  std::set<uint64_t> distinct;
  size_t zero = 0;
  for (const Row& row : all.rows) {
    distinct.insert(row.keys[1][0]);
    zero += row.dense[0] == 0;
  }
  CHECK(distinct.size() > 1000);
  CHECK(distinct.size() < 10000);
  CHECK(zero < 10000);
}

}  // namespace shoal
