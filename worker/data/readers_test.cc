// Each reader: its features, its options, and real files.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <filesystem>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/hash.h"
#include "worker/data/criteo.h"
#include "worker/data/test_util.h"

namespace shoal {
namespace {

uint64_t Key(absl::string_view slot, absl::string_view token) { return FeatureKey(SlotSeed(slot), token); }

std::vector<uint64_t> Keys(absl::string_view slot, const std::vector<std::string>& tokens) {
  std::vector<uint64_t> keys;
  for (const std::string& token : tokens) keys.push_back(Key(slot, token));
  return keys;
}

std::string ErrorOf(const std::string& format, const std::string& path) {
  return ReadAll(MakeData(format, path)).status.ToString();
}

double Positives(const AllRows& all) {
  double positives = 0;
  for (const Row& row : all.rows) positives += row.label;
  return positives;
}

struct RealCase {
  const char* file;
  const char* format;
  size_t rows;
  double positives;  // sum of labels; below 0: not looked at
};

constexpr char kCensus[] = R"(format { csv { header: true quote: "\"" trim: true missing: "?" } } columns {
    label { column: "Y" positive: ">50K" positive: ">50K." } dense { column: "age" scale: 0.01 }
    dense { column: "capital-gain" transform: LOG1P } sparse { column: "workclass" } sparse { column: "education" }
    sparse { bucketize: "age" boundaries: [18, 25, 35] } sparse { cross: ["education", "occupation"] } })";

}  // namespace

TEST_CASE("Criteo: buckets, missing fields, blanks, byte order mark and CRLF", "[data][unit]") {
  CHECK(CriteoBucket(-3) == -3);
  CHECK(CriteoBucket(2) == 2);
  CHECK(CriteoBucket(3) == 1);
  CHECK(CriteoBucket(1382) == 52);  // ln(1382)^2 = 52.29
  TempDir dir;
  std::string row = "1\t5\t-1\t\t1382.0\t2\t0\t0\t0\t0\t0\t0\t0\t7";
  for (int i = 1; i <= 26; ++i) absl::StrAppend(&row, "\t", i == 20 ? "" : absl::StrCat("c", i));
  const AllRows all = ReadAll(
      MakeData("format { criteo { integers: BOTH } }", dir.Write("a", "\xef\xbb\xbf" + row + "\r\n\r\n" + row)));
  REQUIRE(all.status == absl::OkStatus());
  CHECK(all.bad.empty());
  REQUIRE(all.rows.size() == 2);
  CHECK(all.rows[0].SameContent(all.rows[1]));
  const Row& first = all.rows[0];
  CHECK(first.label == 1);
  CHECK(first.keys[0] == Keys("I1", {"2"}));
  CHECK(first.keys[1] == Keys("I2", {"-1"}));
  CHECK(first.keys[2] == Keys("I3", {""}));
  CHECK(first.keys[3] == Keys("I4", {"52"}));
  CHECK(first.keys[13] == Keys("C1", {"c1"}));
  CHECK(first.keys[32] == Keys("C20", {""}));
  CHECK(first.keys[38] == Keys("C26", {"c26"}));
  REQUIRE(first.dense.size() == 13);
  CHECK(first.dense[0] == std::log1p(5.f));
  CHECK(first.dense[1] == 0);
  CHECK(first.dense[2] == 0);
}

TEST_CASE("Csv: tokens, buckets, crosses, several values, missing values and numbers", "[data][unit]") {
  TempDir dir;
  const std::string path = dir.Write("a.csv",
                                     "y; a ;n;tags;id\n"
                                     "yes; red ;10;x|y||z;r1;\n"
                                     "no;NA;;;r2\n"
                                     "\n"
                                     "no;\"re;\"\"d\";-5;x;r3\n"
                                     "no;red;ten;x;r4\n"
                                     "no;red;1\n"
                                     "NA;red;1;x;r6\n"
                                     "no;\"red\"x;1;x;r7");
  const Data data = MakeData(
      R"(format { csv { header: true delimiter: ";" quote: "\"" trim: true missing: "NA" } } columns { id: "id"
         label { column: "y" positive: "yes" } dense { column: "n" transform: LOG1P offset: 1 scale: 2 missing: 9 }
         dense { column: "n" } sparse { column: "a" } sparse { bucketize: "n" boundaries: [-5, 0, 10] }
         sparse { cross: ["a", "n_bucket"] name: "ab" } sparse { column: "tags" separator: "|" } })",
      path);
  ReadOptions options;
  options.want_ids = true;
  const AllRows all = ReadAll(data, options);
  REQUIRE(all.status == absl::OkStatus());
  CHECK(std::vector<std::string>(all.schema.slots().begin(), all.schema.slots().end()) ==
        std::vector<std::string>{"a", "n_bucket", "ab", "tags"});
  REQUIRE(all.rows.size() == 3);
  const Row &red = all.rows[0], &missing = all.rows[1], &quoted = all.rows[2];
  CHECK(red.label == 1);
  CHECK(red.id == "r1");
  CHECK(red.dense == std::vector<float>{static_cast<float>((std::log1p(10.) - 1) * 2), 10});
  CHECK(red.keys[0] == Keys("a", {"red"}));
  CHECK(red.keys[1] == Keys("n_bucket", {"3"}));
  CHECK(red.keys[2] == Keys("ab", {"red\x1f"
                                   "3"}));
  CHECK(red.keys[3] == Keys("tags", {"x", "y", "z"}));
  CHECK(missing.dense == std::vector<float>{9, 0});
  CHECK(missing.keys[0] == Keys("a", {""}));
  CHECK(missing.keys[2] == Keys("ab", {"\x1f"}));
  CHECK(missing.keys[3] == Keys("tags", {""}));
  CHECK(quoted.keys[0] == Keys("a", {"re;\"d"}));
  CHECK(quoted.keys[1] == Keys("n_bucket", {"1"}));
  CHECK(quoted.dense == std::vector<float>{-2, -5});
  const char* expected[] = {": line 6, byte offset 72: field n: value \"ten\": expected a finite number",
                            ": line 7, byte offset 88: field tags: value \"no;red;1\": expected a record of 5 fields",
                            ": line 8, byte offset 97: field y: value \"NA\": expected a label",
                            ": line 9, byte offset 111: field a: value \"\\\"red\\\"x\": expected a separator"};
  REQUIRE(all.bad.size() == 4);
  for (int i = 0; i < 4; ++i) {
    INFO(all.bad[i].message);
    CHECK(absl::StartsWith(all.bad[i].message, path + expected[i]));
  }
}

TEST_CASE("Csv: a quote that is never closed, and columns without a header", "[data][unit]") {
  TempDir dir;
  const std::string path = dir.Write("a.csv", "1,a\n0,\"b\n1,c\n0,d\n");
  AllRows all = ReadAll(
      MakeData(R"(format { csv { quote: "\"" } } columns { label { column: "c0" } sparse { column: "c1" } })", path));
  REQUIRE(all.status == absl::OkStatus());
  CHECK(all.rows.size() == 1);
  REQUIRE(all.bad.size() == 1);
  CHECK(all.bad[0].message ==
        path +
            ": line 2, byte offset 4: field c1: value \"\\\"b\\n1,c\\n0,d\\n\": expected a closing "
            "quote");
  all = ReadAll(MakeData("format { csv {} } columns { label { column: 'c0' } sparse { column: 'c1' } }", path));
  REQUIRE(all.rows.size() == 4);
  CHECK(all.rows[1].keys[0] == Keys("c1", {"\"b"}));
  // The rest of a large file behind an open quote is one bad record and takes no memory.
  std::string large = "1,a\n0,\"b\n";
  for (int i = 0; i < 3000000; ++i) large += "1,cccc\n";
  all = ReadAll(MakeData(R"(format { csv { quote: "\"" } } columns { label { column: "c0" } sparse { column: "c1" } })",
                         dir.Write("b.csv", large)));
  CHECK(all.rows.size() == 1);
  REQUIRE(all.bad.size() == 1);
  CHECK(absl::StrContains(all.bad[0].message, "line 2, byte offset 4: field record: value "));
  CHECK(absl::StrContains(all.bad[0].message, "expected at most 16777216 bytes"));
}

TEST_CASE("Csv: names that do not exist and settings that make no sense are errors", "[data][unit]") {
  TempDir dir;
  const std::string path = dir.Write("a.csv", "label,colour,size,size\n1,red,2,3\n");
  const auto error = [&](const std::string& columns) {
    return ErrorOf("format { csv { header: true } } columns { " + columns + " }", path);
  };
  const std::string label = "label { column: 'label' } ";
  CHECK(error(label + "sparse { column: 'color' }") ==
        "INVALID_ARGUMENT: data.columns.sparse[0]: " + path + " has no column \"color\"; did you mean \"colour\"?");
  CHECK(absl::StrContains(error(""), "data.columns.label: format csv needs"));
  CHECK(absl::StrContains(error(label + "dense { column: 'size' }"), "several columns \"size\""));
  CHECK(absl::StrContains(error(label + "sparse { column: 'colour' bucketize: 'label' }"), "exactly one of"));
  CHECK(absl::StrContains(error(label + "sparse { bucketize: 'label' boundaries: [2, 1] }"),
                          "data.columns.sparse[0].boundaries[1]: 1: expected"));
  CHECK(
      absl::StrContains(error(label + "sparse { column: 'colour' } sparse { column: 'colour' }"), "a second feature"));
  CHECK(absl::StrContains(error(label + "sparse { cross: ['colour', 'shape'] }"), "no column \"shape\""));
  CHECK(absl::StrContains(ErrorOf("format { csv { delimiter: '::' } }", path), "data.format.csv.delimiter: \"::\""));
}

TEST_CASE("Libsvm: labels, indices of any size, comments and blanks", "[data][unit]") {
  TempDir dir;
  const AllRows all = ReadAll(
      MakeData("format { libsvm {} }", dir.Write("a",
                                                 "# head\n+1 007:2 99999999999999999999:+.5 # c\n-1\t0:1e-60 \r\n"
                                                 "  \n-1.0 qid:3 18446744073709551617:1\n1.5")));
  REQUIRE(all.status == absl::OkStatus());
  CHECK(all.bad.empty());
  REQUIRE(all.rows.size() == 4);
  CHECK(all.rows[0].label == 1);
  CHECK(all.rows[0].keys[0] == Keys("features", {"7", "99999999999999999999"}));
  CHECK(all.rows[0].weights[0] == std::vector<float>{2, .5f});
  CHECK(all.rows[1].label == 0);
  CHECK(all.rows[1].weights[0] == std::vector<float>{0});
  CHECK(all.rows[2].label == -1);
  CHECK(all.rows[2].keys[0] == Keys("features", {"18446744073709551617"}));
  CHECK(all.rows[3].label == 1.5f);
  const AllRows zero = ReadAll(MakeData("format { libsvm { one_based: true } }", dir.Write("b", "1 0:1\n")));
  REQUIRE(zero.bad.size() == 1);
  CHECK(absl::StrContains(zero.bad[0].message, "field index: value \"0\": expected at least 1"));
}

TEST_CASE("Xmc: label sets, empty ones too, and the header's promises", "[data][unit]") {
  TempDir dir;
  const std::string rows = "2,0,2 3:0.5 1:1\n 0:1\n1:2\n1 \n4 1:1\n1 9:1\n";
  AllRows all = ReadAll(MakeData("format { xmc {} }", dir.Write("a", "6 5 3\n" + rows)));
  REQUIRE(all.status == absl::OkStatus());
  CHECK(all.schema.label_kind() == FeatureSchema::MULTI_LABEL);
  CHECK(all.schema.label_count() == 3);
  REQUIRE(all.rows.size() == 4);
  CHECK(all.rows[0].labels == std::vector<uint32_t>{0, 2});
  CHECK(all.rows[0].keys[0] == Keys("features", {"3", "1"}));
  CHECK(all.rows[0].weights[0] == std::vector<float>{.5f, 1});
  CHECK(all.rows[1].labels.empty());
  CHECK(all.rows[2].labels.empty());
  CHECK(all.rows[2].weights[0] == std::vector<float>{2});
  CHECK(all.rows[3].labels == std::vector<uint32_t>{1});
  REQUIRE(all.bad.size() == 2);
  CHECK(absl::StrContains(all.bad[0].message, "field label: value \"4\": expected integers below 3"));
  CHECK(absl::StrContains(all.bad[1].message, "field index: value \"9\": expected less than 5"));
  CHECK(ErrorOf("format { xmc {} }", dir.Write("b", "7 5 3\n" + rows)) ==
        "DATA_LOSS: " + dir.Path("b") + ": the header declares 7 rows, but the file has 6: was it cut off?");
}

TEST_CASE("Idx: pixels, classes and damaged files", "[data][unit]") {
  TempDir dir;
  const std::string images("\0\0\x08\x03\0\0\0\x03\0\0\0\x01\0\0\0\x02\x00\xff\x80\x01\x02\x03", 22);
  const std::string labels("\0\0\x08\x01\0\0\0\x03\x05\x00\x09", 11);
  const std::string path = dir.Write("t-images-idx3-ubyte.gz", Gzip(images));
  dir.Write("t-labels-idx1-ubyte.gz", labels);
  Data data = MakeData("format { idx { scale: 0.5 } } split_bytes: 4", path);
  AllRows all = ReadAll(data);
  REQUIRE(all.status == absl::OkStatus());
  CHECK(all.plan.splits_size() == 2);
  CHECK(all.plan.records() == 3);
  CHECK(all.schema.label_kind() == FeatureSchema::CLASS);
  CHECK(all.schema.label_count() == 10);
  REQUIRE(all.rows.size() == 3);
  CHECK(all.rows[0].dense == std::vector<float>{0, 127.5f});
  CHECK(all.rows[0].label == 5);
  CHECK(all.rows[2].dense == std::vector<float>{1, 1.5f});
  CHECK(all.rows[2].label == 9);
  data.mutable_train(0)->add_rows(1);
  data.mutable_train(0)->add_rows(2);
  all = ReadAll(data);
  REQUIRE(all.rows.size() == 1);
  CHECK(all.rows[0].label == 0);
  dir.Write("t-labels-idx1-ubyte.gz", labels.substr(0, 10));
  CHECK(absl::StrContains(ErrorOf("format { idx {} }", path), "expected a file of 11 bytes, this one has 10"));
  CHECK(absl::StrContains(ErrorOf("format { idx {} }", dir.Write("u-images-idx3", "\x89PNG....")), "field magic"));
  CHECK(absl::StrContains(ErrorOf("format { idx {} }", dir.Write("other", images)), "images_marker"));
}

TEST_CASE("Without labels: each format gives the features that it gives with them", "[data][unit]") {
  TempDir dir;
  std::string values = "5\t-1\t\t1382\t2\t0\t0\t0\t0\t0\t0\t0\t7";
  for (int i = 1; i <= 24; ++i) absl::StrAppend(&values, "\tc", i);  // C25 and C26 are missing
  const std::string images("\0\0\x08\x03\0\0\0\x02\0\0\0\x01\0\0\0\x02\x00\xff\x80\x01", 20);
  dir.Write("a-labels-idx1", std::string("\0\0\x08\x01\0\0\0\x02\x05\x01", 10));
  struct Case {
    std::string format, with, without;
  };
  const std::string columns = " columns { label { column: 'y' } dense { column: 'x' } sparse { column: 's' } }";
  const std::vector<Case> cases = {
      {"format { criteo {} }", dir.Write("c1", "1\t" + values + "\n"), dir.Write("c0", values + "\n")},
      {"format { csv { header: true } }" + columns, dir.Write("v1", "x,y,s\n2,1,a\n3,0,b\n"),
       dir.Write("v0", "x,s\n2,a\n3,b\n")},
      // The label's column may be there, whatever is in it.
      {"format { csv { header: true } }" + columns, dir.Path("v1"), dir.Write("v2", "s,x,y\na,2,?\nb,3,\n")},
      {"format { libsvm {} }", dir.Write("l1", "1 3:2 5:1\n-1 4:1\n"), dir.Write("l0", "3:2 5:1\n4:1\n")},
      {"format { libsvm {} }", dir.Path("l1"), dir.Write("l2", "0 3:2 5:1\n4:1\n")},
      {"format { xmc {} }", dir.Write("x1", "2 6 3\n1,2 3:2 5:1\n0 4:1\n"), dir.Write("x0", "2 6 3\n 3:2 5:1\n4:1\n")},
      {"format { idx {} }", dir.Write("a-images-idx3", images), dir.Write("b-images-idx3", images)}};
  ReadOptions options;
  options.labels = Labels::kAbsent;
  for (const Case& c : cases) {
    INFO(c.format << " " << c.without);
    const AllRows with = ReadAll(MakeData(c.format, c.with));
    REQUIRE(with.status == absl::OkStatus());
    const AllRows without = ReadAll(MakeData(c.format, c.without), options);
    REQUIRE(without.status == absl::OkStatus());
    CHECK(without.bad.empty());
    REQUIRE(without.rows.size() == with.rows.size());
    CHECK(std::equal(with.schema.dense().begin(), with.schema.dense().end(), without.schema.dense().begin()));
    CHECK(std::equal(with.schema.slots().begin(), with.schema.slots().end(), without.schema.slots().begin()));
    for (size_t i = 0; i < with.rows.size(); ++i) {
      Row expected = with.rows[i];
      expected.label = 0;
      expected.labels.clear();
      CHECK(without.rows[i].SameContent(expected));
    }
  }
}

TEST_CASE("A wrong delimiter is named, and rows are cut short in messages", "[data][unit]") {
  TempDir dir;
  const std::string long_row = "1;" + std::string(5000, 'x');
  const auto one_bad = [&](const std::string& format, const std::string& path, Labels labels) {
    ReadOptions options;
    options.labels = labels;
    const AllRows all = ReadAll(MakeData(format, path), options);
    REQUIRE(all.bad.size() == 1);
    CHECK(all.bad[0].message.size() < 400);
    return all.bad[0].message;
  };
  const std::string criteo = dir.Write("c", long_row + "\n");
  CHECK(absl::StrContains(one_bad("format { criteo {} }", criteo, Labels::kPresent),
                          "expected a row of 40 fields, this one has 1: is data.format.criteo.delimiter, now \"\\t\", "
                          "the right one?"));
  CHECK(absl::StrContains(one_bad("format { criteo {} }", criteo, Labels::kAbsent), "a row of 39 fields"));
  const std::string columns = " columns { label { column: 'y' } sparse { column: 's' } }";
  CHECK(absl::StrContains(
      one_bad("format { csv { header: true } }" + columns, dir.Write("v", "y,s\n" + long_row + "\n"), Labels::kPresent),
      "expected a record of 2 fields, this one has 1: is data.format.csv.delimiter, now \",\""));
  std::string names = "y";
  for (int i = 0; i < 2000; ++i) absl::StrAppend(&names, ";column", i);
  const std::string error =
      ErrorOf("format { csv { header: true } }" + columns, dir.Write("h", names + "\n" + long_row + "\n"));
  CHECK(absl::StrContains(error, "has no column \"y\"; its first line is one field, \"y;column0;"));
  CHECK(absl::StrContains(error, "is data.format.csv.delimiter, now \",\", the right one?"));
  CHECK(error.size() < 400);
  const std::string other =
      ErrorOf("format { csv { header: true delimiter: ';' } } columns { label { column: 'zzz' } }", dir.Path("h"));
  CHECK(absl::StrContains(other, "column18 and 1981 more"));
  CHECK(other.size() < 500);
}

TEST_CASE("Real files: rows and positives as their sources say", "[data][unit]") {
  const RealCase cases[] = {
      {"census/adult.data.gz", kCensus, 32561, 7841},
      {"census/adult.test.gz", kCensus, 16281, 3846},
      {"criteo/kaggle_first10k_train.tsv.gz", "format { criteo {} }", 10000, 2182},
      {"criteo/deepctr_criteo_sample.csv", "format { criteo { delimiter: ',' header: true } }", 200, -1},
      {"libsvm/angel_a9a_123d_train.libsvm.gz", "format { libsvm { one_based: true } }", 32561, 7841},
      {"libsvm/a9a.t.gz", "format { libsvm { one_based: true } }", 16281, 3846},
      {"libsvm/agaricus_train.txt.gz", "format { libsvm { one_based: true } }", 6513, -1},
      {"libsvm/agaricus_test.txt.gz", "format { libsvm { one_based: true } }", 1611, -1},
      {"xmc/bibtex_train.xmc.txt.gz", "format { xmc {} }", 4880, -1},
      {"xmc/bibtex_test.xmc.txt.gz", "format { xmc {} }", 2515, -1},
  };
  for (const RealCase& real : cases) {
    const std::string path = SharedData(real.file);
    if (path.empty()) continue;
    ReadOptions options;
    options.shuffle = true;
    const AllRows all = ReadAll(MakeData(real.format, path), options);
    INFO(path);
    REQUIRE(all.status == absl::OkStatus());
    CHECK(all.bad.empty());
    CHECK(all.rows.size() == real.rows);
    CHECK(all.plan.records() == real.rows);
    if (real.positives >= 0) CHECK(Positives(all) == real.positives);
    if (all.schema.label_kind() == FeatureSchema::MULTI_LABEL) CHECK(all.schema.label_count() == 159);
  }
}

TEST_CASE("Real files: Fashion-MNIST", "[data][unit]") {
  const std::string directory = "/usr/share/datasets/fashion-mnist";
  if (!std::filesystem::exists(directory)) {
    std::printf("SKIPPED: Debian package dataset-fashion-mnist is not installed\n");
    return;
  }
  // One split of each is enough to read; the plan counts them all.
  for (const auto& [name, records] : {std::pair("train", 60000), std::pair("t10k", 10000)}) {
    Data data = MakeData("format { idx {} }", absl::StrCat(directory, "/", name, "-images-idx3-ubyte.gz"));
    const auto plan = PlanInputs(data, InputKind::kTrain);
    REQUIRE(plan.ok());
    CHECK(plan->records() == static_cast<uint64_t>(records));
    data.mutable_train(0)->add_rows(0);
    data.mutable_train(0)->add_rows(100);
    const AllRows all = ReadAll(data);
    REQUIRE(all.status == absl::OkStatus());
    CHECK(all.schema.label_count() == 10);
    CHECK(all.schema.dense_size() == 784);
    CHECK(all.rows.size() == 100);
    CHECK(*std::max_element(all.rows[0].dense.begin(), all.rows[0].dense.end()) <= 1);
  }
}

}  // namespace shoal
