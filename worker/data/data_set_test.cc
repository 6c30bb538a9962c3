// Splits, shuffling, numbering and compression: what holds for every format.
#include "worker/data/data_set.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/hash.h"
#include "base/random.h"
#include "worker/data/test_util.h"

namespace shoal {
namespace {

// Rows whose label is their number, so that order and identity show.
std::string NumberedRows(int rows, absl::string_view line_end, bool quoted, bool final_line_end) {
  std::string text = absl::StrCat("n,t", line_end);
  for (int i = 0; i < rows; ++i) {
    absl::StrAppend(&text, i, ",",
                    quoted && i % 3 == 0 ? absl::StrCat("\"a", line_end, line_end, "\"\"x,", i, "\"")
                                         : absl::StrCat("plain", std::string(i % 50, 'x')));
    if (i + 1 < rows || final_line_end) absl::StrAppend(&text, line_end);
  }
  return text;
}

constexpr char kNumbered[] = R"(format { csv { header: true quote: "\"" } }
    columns { label { column: "n" } sparse { column: "t" } })";

std::vector<float> LabelsOf(const AllRows& all) {
  std::vector<float> labels;
  for (const Row& row : all.rows) labels.push_back(row.label);
  return labels;
}

std::vector<float> Ascending(int count) {
  std::vector<float> labels(count);
  for (int i = 0; i < count; ++i) labels[i] = static_cast<float>(i);
  return labels;
}

}  // namespace

TEST_CASE("DataSet: every split size gives the same records in file order", "[data][unit]") {
  const absl::string_view line_end = GENERATE("\n", "\r\n");
  const bool quoted = GENERATE(false, true);
  const bool final_line_end = GENERATE(false, true);
  constexpr int kRows = 700;
  TempDir dir;
  Data data = MakeData(kNumbered, dir.Write("a.csv", NumberedRows(kRows, line_end, quoted, final_line_end)));
  const AllRows whole = ReadAll(data);
  REQUIRE(whole.status == absl::OkStatus());
  REQUIRE(whole.plan.splits_size() == 1);
  CHECK(LabelsOf(whole) == Ascending(kRows));
  CHECK(whole.plan.records() == kRows);
  for (const uint64_t split_bytes : {1, 7, 64, 1000, 1024, 4096, 10000}) {
    data.set_split_bytes(split_bytes);
    const AllRows cut = ReadAll(data);
    INFO("split_bytes " << split_bytes);
    REQUIRE(cut.status == absl::OkStatus());
    CHECK(cut.bad.empty());
    CHECK(cut.plan.splits_size() > 1);
    REQUIRE(LabelsOf(cut) == Ascending(kRows));
    for (int i = 0; i < kRows; ++i) REQUIRE(cut.rows[i].SameContent(whole.rows[i]));
    for (int i = 1; i < cut.plan.splits_size(); ++i) {
      CHECK(cut.plan.splits(i).begin() == cut.plan.splits(i - 1).end());
    }
  }
}

TEST_CASE("DataSet: shuffling is a permutation that depends on seed and pass only", "[data][unit]") {
  constexpr int kRows = 1000;
  TempDir dir;
  Data data = MakeData(kNumbered, dir.Write("a.csv", NumberedRows(kRows, "\n", true, true)));
  data.set_split_bytes(4096);
  data.mutable_shuffle()->set_records(64);
  ReadOptions options;
  options.shuffle = true;
  const AllRows first = ReadAll(data, options);
  REQUIRE(first.status == absl::OkStatus());
  std::vector<float> sorted = LabelsOf(first);
  CHECK(sorted != Ascending(kRows));
  std::sort(sorted.begin(), sorted.end());
  CHECK(sorted == Ascending(kRows));
  options.batch = 17;
  CHECK(LabelsOf(ReadAll(data, options)) == LabelsOf(first));
  options.pass = 1;
  CHECK(LabelsOf(ReadAll(data, options)) != LabelsOf(first));
  options.pass = 0;
  options.seed = 2;
  CHECK(LabelsOf(ReadAll(data, options)) != LabelsOf(first));
  // A block never crosses a split: the records of a split are the same, whatever their order.
  options.seed = 1;
  data.mutable_shuffle()->set_records(0);
  const AllRows unshuffled = ReadAll(data, options);
  for (int split = 0; split < first.plan.splits_size(); ++split) {
    std::vector<float> a, b;
    for (const Row& row : first.rows) {
      if (row.split == static_cast<uint64_t>(split)) a.push_back(row.label);
    }
    for (const Row& row : unshuffled.rows) {
      if (row.split == static_cast<uint64_t>(split)) b.push_back(row.label);
    }
    CHECK(std::is_sorted(b.begin(), b.end()));
    std::sort(a.begin(), a.end());
    CHECK(a == b);
  }
}

TEST_CASE("DataSet: a split opened at a record goes on exactly there", "[data][unit]") {
  TempDir dir;
  Data data = MakeData(kNumbered, dir.Write("a.csv", NumberedRows(500, "\n", true, false)));
  data.set_split_bytes(3000);
  data.mutable_shuffle()->set_records(GENERATE(0, 10, 64, 10000));
  const bool shuffle = GENERATE(false, true);
  const auto plan = PlanInputs(data, InputKind::kTrain);
  REQUIRE(plan.ok());
  const auto schema = MakeSchema(data, *plan);
  REQUIRE(schema.ok());
  DataSetOptions options;
  options.shuffle = shuffle;
  const auto set = DataSet::Open(data, *plan, *schema, options);
  REQUIRE(set.ok());
  for (uint64_t position = 0; position < 3; ++position) {
    Batch batch;
    std::vector<Row> all;
    auto whole = (*set)->OpenSplit(3, position, 0);
    REQUIRE(whole.ok());
    REQUIRE((*whole)->Next(100000, &batch).ok());
    CHECK(batch.end_of_split);
    AppendRows(batch, &all);
    for (const uint64_t first : {uint64_t{0}, uint64_t{1}, uint64_t{10}, uint64_t{33}, uint64_t{all.size()}}) {
      std::vector<Row> tail;
      auto reader = (*set)->OpenSplit(3, position, first);
      REQUIRE(reader.ok());
      REQUIRE((*reader)->Next(100000, &batch).ok());
      CHECK(batch.begin == first);
      AppendRows(batch, &tail);
      REQUIRE(tail.size() == all.size() - first);
      for (size_t i = 0; i < tail.size(); ++i) {
        CHECK(tail[i].record == all[first + i].record);
        CHECK(tail[i].SameContent(all[first + i]));
      }
    }
    const auto beyond = (*set)->OpenSplit(3, position, all.size() + 1);
    CHECK(beyond.status().code() == absl::StatusCode::kInvalidArgument);
  }
  CHECK((*set)->OpenSplit(0, plan->splits_size(), 0).status().code() == absl::StatusCode::kInvalidArgument);
}

TEST_CASE("DataSet: gzip and zstd, of several members or frames, read like the plain file", "[data][unit]") {
  TempDir dir;
  const std::string text = NumberedRows(2000, "\n", true, true);
  const std::string half1 = text.substr(0, text.size() / 2), half2 = text.substr(text.size() / 2);
  Data plain = MakeData(kNumbered, dir.Write("a.csv", text));
  plain.set_split_bytes(5000);
  ReadOptions options;
  options.shuffle = true;
  const AllRows expected = ReadAll(plain, options);
  REQUIRE(expected.rows.size() == 2000);
  // Found by content, so the names may lie.
  const std::string files[] = {dir.Write("1.gz", Gzip(text)),
                               dir.Write("2.csv", Gzip(half1) + Gzip(half2)),
                               dir.Write("3.gz", Gzip(half1) + Gzip("") + Gzip(half2) + std::string(1000, '\0')),
                               dir.Write("4.zst", Zstd(text)),
                               dir.Write("5.gz", Zstd(half1) + Zstd(half2)),
                               dir.Write("6", std::string("\x50\x2a\x4d\x18\x03\0\0\0abc", 11) + Zstd(text))};
  for (const std::string& file : files) {
    INFO(file);
    Data data = MakeData(kNumbered, file);
    data.set_split_bytes(5000);
    const AllRows all = ReadAll(data, options);
    REQUIRE(all.status == absl::OkStatus());
    CHECK(all.plan.files(0).content_bytes() == text.size());
    CHECK(all.plan.files(0).content_hash() == expected.plan.files(0).content_hash());
    CHECK(all.plan.files(0).content_hash() == HashBytes(text));
    REQUIRE(all.rows.size() == expected.rows.size());
    for (size_t i = 0; i < all.rows.size(); ++i) REQUIRE(all.rows[i].SameContent(expected.rows[i]));
  }
}

TEST_CASE("DataSet: damaged and cut off compression is an error that names the file", "[data][unit]") {
  TempDir dir;
  const std::string text = NumberedRows(20000, "\n", false, true);
  for (const std::string& packed : {Gzip(text), Zstd(text)}) {
    std::string flipped = packed;
    flipped[packed.size() / 2] ^= 0x55;
    for (const std::string& bytes : {packed.substr(0, packed.size() - 1), packed.substr(0, packed.size() / 2),
                                     packed.substr(0, 10), flipped, packed + "garbage"}) {
      const std::string path = dir.Write("bad", bytes);
      const AllRows all = ReadAll(MakeData(kNumbered, path));
      INFO(all.status.ToString() << " of " << bytes.size());
      CHECK(all.status.code() == absl::StatusCode::kDataLoss);
      CHECK(absl::StrContains(all.status.message(), path));
    }
  }
}

TEST_CASE("PlanInputs: globs, row ranges and what is wrong with paths", "[data][unit]") {
  TempDir dir;
  dir.Write("b2.svm", "2 1:1\n3 1:1\n");
  dir.Write("b1.svm", "0 1:1\n# none\n\n1 1:1\n");
  Data data = MakeData("format { libsvm {} }", dir.Path("b*.svm"));
  CHECK(LabelsOf(ReadAll(data)) == std::vector<float>{0, 1, 2, 3});
  data.mutable_train(0)->add_rows(1);
  data.mutable_train(0)->add_rows(2);
  CHECK(LabelsOf(ReadAll(data)) == std::vector<float>{1, 3});
  data.mutable_train(0)->set_rows(1, 3);
  CHECK(ReadAll(data).status.ToString() ==
        "OUT_OF_RANGE: " + dir.Path("b1.svm") + ": rows [1, 3): the file has 2 records");
  const auto error = [](const Data& bad) { return ReadAll(bad).status.ToString(); };
  CHECK(error(MakeData("format { libsvm {} }", dir.Path("c*.svm"))) ==
        "NOT_FOUND: data.train[0].path: no file matches " + dir.Path("c*.svm"));
  CHECK(error(MakeData("format { libsvm {} }", "b1.svm")) ==
        "INVALID_ARGUMENT: data.train[0].path: \"b1.svm\": expected an absolute path");
  CHECK(error(MakeData("format { libsvm {} }", dir.Path("none"))) ==
        "NOT_FOUND: " + dir.Path("none") + ": cannot open: No such file or directory");
  CHECK(error(MakeData("format { libsvm {} }", dir.Write("empty", "\n# nothing\n"))) ==
        "INVALID_ARGUMENT: data.train: no records in " + dir.Path("empty"));
  CHECK(absl::StrContains(error(MakeData("format { libsvm {} }", dir.Path("."))), "is a directory"));
  CHECK(error(MakeData("", dir.Path("b1.svm"))) ==
        "INVALID_ARGUMENT: data.format: expected one of criteo, csv, libsvm, xmc, idx, synthetic");
}

TEST_CASE("PlanInputs: the size of a split is a function of the input", "[data][unit]") {
  TempDir dir;
  std::string text;
  for (int i = 0; i < 40000; ++i) absl::StrAppend(&text, i % 2, " 1:1 22:0.5\n");
  Data data = MakeData("format { libsvm {} }", dir.Write("a.svm", text));
  const auto plan = PlanInputs(data, InputKind::kTrain);
  REQUIRE(plan.ok());
  CHECK(plan->splits_size() == static_cast<int>((text.size() + 65535) / 65536));
}

TEST_CASE("PlanInputs: a split has several batches, as long as there are enough splits", "[data][unit]") {
  TempDir dir;
  // 6 MiB of records of 16 bytes, more or less.
  std::string text;
  for (int i = 0; i < 393216; ++i) absl::StrAppend(&text, i % 2, " 1:1 ", 10 + i % 90, ":0.5\n");
  Data data = MakeData("format { libsvm {} }", dir.Write("a.svm", text));
  const uint64_t record = text.size() / 393216;
  const auto splits = [&](uint64_t batch_size) {
    const auto plan = PlanInputs(data, InputKind::kTrain, batch_size);
    return plan.ok() ? plan->splits_size() : -1;
  };
  const int smallest = static_cast<int>((text.size() + 65535) / 65536);
  CHECK(splits(0) == smallest);
  CHECK(splits(1) == smallest);
  CHECK(splits(65536 / 8 / record) == smallest);
  const int expected = static_cast<int>(text.size() / (8 * 640 * record));  // one more or less for where records end
  CHECK(splits(640) >= expected);
  CHECK(splits(640) <= expected + 1);
  CHECK(splits(640) < smallest);
  for (uint64_t batch_size : {uint64_t{4096}, uint64_t{1} << 20, uint64_t{1} << 31, ~uint64_t{0}}) {
    CHECK(splits(batch_size) >= 64);
    CHECK(splits(batch_size) <= 65);
  }
  // What the job says goes first; records of one size and synthetic ones are treated alike.
  data.set_split_bytes(1 << 20);
  CHECK(splits(4096) == static_cast<int>((text.size() + (1 << 20) - 1) >> 20));
  Data synthetic;
  synthetic.mutable_format()->mutable_synthetic()->set_rows(1 << 20);
  const auto rows = PlanInputs(synthetic, InputKind::kTrain, 1024);
  REQUIRE(rows.ok());
  CHECK(rows->splits_size() == (1 << 20) / (8 * 1024));
}

TEST_CASE("DataSet: a file that changed after the plan is refused", "[data][unit]") {
  TempDir dir;
  Data data = MakeData("format { libsvm {} }", dir.Write("a.svm", "1 1:1\n0 2:1\n"));
  AllRows all = ReadAll(data);
  REQUIRE(all.status.ok());
  dir.Write("a.svm", "1 1:1\n0 2:1\n1 3:1\n");
  ReadPlanned(data, {}, &all);
  CHECK(all.status.code() == absl::StatusCode::kFailedPrecondition);
  CHECK(absl::StrContains(all.status.message(), dir.Path("a.svm")));
}

TEST_CASE("DataSet: ids are the column's, else the row's number in the input", "[data][unit]") {
  TempDir dir;
  Data data = MakeData(kNumbered, dir.Write("a.csv", NumberedRows(300, "\n", true, true)));
  data.set_split_bytes(1000);
  ReadOptions options;
  options.want_ids = true;
  options.shuffle = GENERATE(false, true);
  AllRows all = ReadAll(data, options);
  REQUIRE(all.rows.size() == 300);
  for (const Row& row : all.rows) CHECK(row.id == absl::StrCat(row.label));
  data.mutable_columns()->set_id("t");
  all = ReadAll(data, options);
  REQUIRE(all.rows.size() == 300);
  for (const Row& row : all.rows) {
    if (row.label == 0) CHECK(row.id == "a\n\n\"x,0");
    if (row.label == 1) CHECK(row.id == "plainx");
  }
}

TEST_CASE("DataSet: a bad record keeps its number and leaves nothing behind", "[data][unit]") {
  TempDir dir;
  const Data data = MakeData("format { libsvm {} }", dir.Write("a", "1 1:1\n0 2:2 3:x\n1 4:4 5:5\n0 7:7 7:7\n0 6:1\n"));
  const AllRows all = ReadAll(data);
  REQUIRE(all.status.ok());
  CHECK(all.records == 5);
  REQUIRE(all.rows.size() == 3);
  CHECK(all.rows[0].record == 0);
  CHECK(all.rows[1].record == 2);
  CHECK(all.rows[1].weights[0] == std::vector<float>{4, 5});
  CHECK(all.rows[2].record == 4);
  CHECK(all.rows[2].keys[0] == std::vector<uint64_t>{FeatureKey(SlotSeed("features"), "6")});
  REQUIRE(all.bad.size() == 2);
  CHECK(all.bad[0].file == dir.Path("a"));
  CHECK(all.bad[0].offset == 6);
  CHECK(all.bad[0].message == dir.Path("a") +
                                  ": line 2, byte offset 6: field value of index \"3\": value \"x\": "
                                  "expected a finite number");
  CHECK(all.bad[1].message == dir.Path("a") +
                                  ": line 4, byte offset 26: field index: value \"7\": "
                                  "expected each index at most once in a row");
}

TEST_CASE("DataSet: with a binary loss a label outside [0, 1] is a bad record, named like any other", "[data][unit]") {
  TempDir dir;
  const Data data = MakeData("format { libsvm {} }", dir.Write("a", "1 1:1\n7 2:2\n0.5 3:3\n-2 4:4\n"));
  const absl::StatusOr<InputPlan> plan = PlanInputs(data, InputKind::kTrain);
  REQUIRE(plan.ok());
  DataSetOptions options;
  options.shuffle = false;
  options.binary_labels = true;
  const auto set = DataSet::Open(data, *plan, *MakeSchema(data, *plan), options);
  REQUIRE(set.ok());
  const auto reader = (*set)->OpenSplit(0, 0, 0);
  REQUIRE(reader.ok());
  Batch batch;
  REQUIRE((*reader)->Next(100, &batch).ok());
  CHECK(batch.labels == std::vector<float>{1, 0.5});
  CHECK(batch.slots[0].keys.size() == 2);
  REQUIRE(batch.bad.size() == 2);
  CHECK(batch.bad[0].message == dir.Path("a") +
                                    ": line 2, byte offset 6: field label: value \"7\": "
                                    "expected 0 to 1, since the loss is binary_cross_entropy");
  CHECK(batch.bad[1].offset == 20);
}

namespace {

bool SameBatch(const Batch& a, const Batch& b) {
  bool same = a.pass == b.pass && a.split == b.split && a.begin == b.begin && a.end == b.end &&
              a.end_of_split == b.end_of_split && a.rows == b.rows && a.records == b.records &&
              a.dense_dim == b.dense_dim && a.dense == b.dense && a.labels == b.labels &&
              a.label_offsets == b.label_offsets && a.label_ids == b.label_ids && a.slots.size() == b.slots.size() &&
              a.bad.size() == b.bad.size();
  for (size_t s = 0; same && s < a.slots.size(); ++s) {
    same = a.slots[s].offsets == b.slots[s].offsets && a.slots[s].keys == b.slots[s].keys &&
           a.slots[s].weights == b.slots[s].weights;
  }
  for (size_t i = 0; same && i < a.bad.size(); ++i) {
    same = a.bad[i].file == b.bad[i].file && a.bad[i].offset == b.bad[i].offset && a.bad[i].message == b.bad[i].message;
  }
  return same;
}

// Reads three passes of all splits from both sets, from record `first` of each, in batches of `size`.
void CompareSets(DataSet* cached, DataSet* plain, int splits, uint64_t first, uint64_t size) {
  for (uint64_t pass = 0; pass < 3; ++pass) {
    for (int s = 0; s < splits; ++s) {
      auto a = cached->OpenSplit(pass, s, first), b = plain->OpenSplit(pass, s, first);
      REQUIRE(a.status() == b.status());
      if (!a.ok()) continue;
      Batch from_cache, from_file;
      do {
        REQUIRE((*a)->Next(size, &from_cache).ok());
        REQUIRE((*b)->Next(size, &from_file).ok());
        INFO("pass " << pass << ", split " << s << ", record " << from_file.begin);
        REQUIRE(SameBatch(from_cache, from_file));
      } while (!from_file.end_of_split);
    }
  }
}

}  // namespace

TEST_CASE("DataSet: the cache gives the same batches in every pass, with bad records, weights and sets of labels",
          "[data][unit]") {
  std::string csv = "n,t,u\n", libsvm, xmc = "60 50 9\n";
  Random random({4});
  for (int i = 0; i < 300; ++i) {
    absl::StrAppend(&csv, i % 17 == 3 ? "bad" : absl::StrCat(i), ",a", random.Below(9), i % 5 == 0 ? ";b" : "", ",",
                    random.Below(4), "\n");
    absl::StrAppend(&libsvm, i % 2, " ", random.Below(5), ":1 ", 5 + random.Below(9), i % 50 > 40 ? ":0.5" : ":1",
                    i % 23 == 0 ? " x" : "", "\n");
  }
  for (int i = 0; i < 60; ++i) {
    absl::StrAppend(&xmc, i % 9, i % 2 == 0 ? ",3" : "", " ", random.Below(50), ":1.5\n");
  }
  TempDir dir;
  Data all[] = {MakeData(R"(format { csv { header: true } } columns { label { column: "n" }
                         sparse { column: "t" separator: ";" } sparse { column: "u" } dense { column: "u" } })",
                         dir.Write("a.csv", csv)),
                MakeData("format { libsvm {} }", dir.Write("a.libsvm", libsvm)),
                MakeData("format { xmc {} }", dir.Write("a.xmc", xmc))};
  const uint64_t block = GENERATE(0, 7, 1000);
  for (Data& data : all) {
    data.set_split_bytes(1024);
    data.set_passes(3);
    data.mutable_shuffle()->set_records(block);
    auto plan = PlanInputs(data, InputKind::kTrain);
    REQUIRE(plan.status() == absl::OkStatus());
    REQUIRE(plan->splits_size() > 0);
    auto schema = MakeSchema(data, *plan);
    REQUIRE(schema.ok());
    auto plain = DataSet::Open(data, *plan, *schema, {});
    REQUIRE(plain.ok());
    data.set_cache(Data::MEMORY);
    // Everything fits; only some splits do; none does.
    for (uint64_t bytes : {1 << 20, 6000, 1}) {
      data.set_cache_bytes(bytes);
      for (uint64_t first : {0, 3, 1000000}) {
        auto cached = DataSet::Open(data, *plan, *schema, {});
        REQUIRE(cached.ok());
        INFO(data.format().ShortDebugString() << ", " << bytes << " bytes, from record " << first);
        CompareSets(cached->get(), plain->get(), plan->splits_size(), first, 5);
      }
    }
  }
}

TEST_CASE("DataSet: later passes come from memory: the file may be gone", "[data][unit]") {
  TempDir dir;
  const std::string path = dir.Write("a.csv", NumberedRows(500, "\n", false, true));
  Data data = MakeData(kNumbered, path);
  data.set_split_bytes(2048);
  data.set_passes(2);
  data.set_cache(Data::MEMORY);
  auto plan = PlanInputs(data, InputKind::kTrain);
  REQUIRE(plan.ok());
  auto schema = MakeSchema(data, *plan);
  auto set = DataSet::Open(data, *plan, *schema, {});
  REQUIRE(set.ok());
  std::vector<float> labels[2];
  for (uint64_t pass = 0; pass < 2; ++pass) {
    for (int s = 0; s < plan->splits_size(); ++s) {
      auto reader = (*set)->OpenSplit(pass, s, 0);
      REQUIRE(reader.ok());
      Batch batch;
      REQUIRE((*reader)->Next(100000, &batch).ok());
      labels[pass].insert(labels[pass].end(), batch.labels.begin(), batch.labels.end());
    }
    // Same length, so that it is the content that would be missed.
    std::ofstream(path) << std::string(plan->files(0).file_bytes(), '#');
  }
  CHECK(labels[0] != labels[1]);
  for (std::vector<float>& all : labels) std::sort(all.begin(), all.end());
  CHECK(labels[0] == Ascending(500));
  CHECK(labels[1] == Ascending(500));
}

}  // namespace shoal
