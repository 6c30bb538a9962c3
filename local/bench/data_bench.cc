#include "local/bench/data_bench.h"

#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/status_macros.h"
#include "worker/data/data_set.h"
#include "worker/data/datagen.h"

namespace shoal {
namespace {

constexpr double kTargetMbPerSecond = 250;
constexpr uint64_t kBatch = 4096;

// A file that goes with the object.
class TemporaryFile {
 public:
  TemporaryFile() {
    const char* folder = std::getenv("TMPDIR");
    path_ = absl::StrCat(folder == nullptr ? "/tmp" : folder, "/shoal-bench-XXXXXX");
    const int file = mkstemp(path_.data());
    if (file >= 0) close(file);
  }
  ~TemporaryFile() { std::remove(path_.c_str()); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// The rows of a Criteo file as csv: the same fields, a header, commas.
absl::Status WriteCsv(const std::string& from, const std::string& to, Columns* columns) {
  std::ifstream in(from);
  std::ofstream out(to);
  out << "label";
  columns->mutable_label()->set_column("label");
  for (int i = 1; i <= 13; ++i) {
    out << ",I" << i;
    columns->add_dense()->set_column(absl::StrCat("I", i));
  }
  for (int i = 1; i <= 26; ++i) {
    out << ",C" << i;
    columns->add_sparse()->set_column(absl::StrCat("C", i));
  }
  out << "\n";
  for (std::string line; std::getline(in, line);) out << absl::StrReplaceAll(line, {{"\t", ","}}) << "\n";
  out.flush();
  if (!out) return absl::UnavailableError(absl::StrCat("cannot write ", to));
  return absl::OkStatus();
}

// MB a second and thread: all splits read into batches by one lane.
absl::StatusOr<double> ReadRate(const Data& data, const InputPlan& plan, const FeatureSchema& schema) {
  SHOAL_ASSIGN_OR_RETURN(const std::unique_ptr<DataSet> set, DataSet::Open(data, plan, schema, {}));
  Batch batch;
  uint64_t bytes = 0;
  const double start = ThreadCpuSeconds();
  for (int s = 0; s < plan.splits_size(); ++s) {
    SHOAL_ASSIGN_OR_RETURN(const std::unique_ptr<SplitReader> reader, set->OpenSplit(0, s, 0));
    do {
      SHOAL_RETURN_IF_ERROR(reader->Next(kBatch, &batch));
      if (!batch.bad.empty()) return absl::InternalError(batch.bad.front().message);
    } while (!batch.end_of_split);
    bytes += plan.splits(s).end() - plan.splits(s).begin();
  }
  return 1e-6 * static_cast<double>(bytes) / (ThreadCpuSeconds() - start);
}

// The same bytes read and cut into lines, nothing else.
double CountRate(const std::string& path, uint64_t* lines) {
  std::vector<char> buffer(256 << 10);
  const double start = ThreadCpuSeconds();
  std::FILE* const file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) return 0;
  uint64_t bytes = 0;
  for (size_t got; (got = std::fread(buffer.data(), 1, buffer.size(), file)) > 0; bytes += got) {
    const char* at = buffer.data();
    const char* const end = at + got;
    while ((at = static_cast<const char*>(std::memchr(at, '\n', end - at))) != nullptr) ++at, ++*lines;
  }
  std::fclose(file);
  return 1e-6 * static_cast<double>(bytes) / (ThreadCpuSeconds() - start);
}

absl::Status Measure(const std::string& format, const std::string& path, const Columns* columns, int repeats,
                     BenchRows* rows) {
  Data data;
  data.add_train()->set_path(path);
  if (format == "criteo") data.mutable_format()->mutable_criteo();
  if (format == "libsvm") data.mutable_format()->mutable_libsvm();
  if (format == "csv") data.mutable_format()->mutable_csv()->set_header(true);
  if (columns != nullptr) *data.mutable_columns() = *columns;
  data.set_split_bytes(16 << 20);
  SHOAL_ASSIGN_OR_RETURN(const InputPlan plan, PlanInputs(data, InputKind::kTrain));
  SHOAL_ASSIGN_OR_RETURN(const FeatureSchema schema, MakeSchema(data, plan));
  BenchRow bound, lines;
  bound.id = lines.id = "T8";
  bound.name = absl::StrCat("parse ", format);
  lines.name = absl::StrCat(bound.name, ", beside lines");
  bound.unit = lines.unit = "MB/s of CPU";
  bound.other_name = "MB/s wanted";
  bound.other = {kTargetMbPerSecond};
  bound.target = format == "csv" ? 0 : 1;
  lines.other_name = "counting lines";
  absl::Status status;
  uint64_t counted = 0;
  Interleave(
      repeats,
      [&] {
        const absl::StatusOr<double> rate = ReadRate(data, plan, schema);
        status.Update(rate.status());
        return rate.ok() ? *rate : 0;
      },
      [&] { return CountRate(path, &counted); }, &lines);
  bound.ours = lines.ours;
  rows->insert(rows->end(), {bound, lines});
  return status;
}

}  // namespace

absl::StatusOr<BenchRows> RunDataBench(BenchSize size) {
  const int repeats = size == BenchSize::kSmoke ? 1 : size == BenchSize::kQuick ? 3 : 7;
  DatagenOptions options;
  options.rows = size == BenchSize::kSmoke ? 2000 : 100'000;
  options.teacher.set_ids_per_category(100'000);
  BenchRows rows;
  TemporaryFile criteo, libsvm, csv;
  SHOAL_RETURN_IF_ERROR(GenerateFile(options, criteo.path()).status());
  SHOAL_RETURN_IF_ERROR(Measure("criteo", criteo.path(), nullptr, repeats, &rows));
  Columns columns;
  SHOAL_RETURN_IF_ERROR(WriteCsv(criteo.path(), csv.path(), &columns));
  options.format = DatagenFormat::kLibsvm;
  SHOAL_RETURN_IF_ERROR(GenerateFile(options, libsvm.path()).status());
  SHOAL_RETURN_IF_ERROR(Measure("libsvm", libsvm.path(), nullptr, repeats, &rows));
  SHOAL_RETURN_IF_ERROR(Measure("csv", csv.path(), &columns, repeats, &rows));
  return rows;
}

}  // namespace shoal
