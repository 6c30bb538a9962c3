// PlanInputs and MakeSchema: one look at every input file before a job starts.
#include <glob.h>
#include <sys/stat.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/data/data_set.h"
#include "worker/data/format.h"
#include "worker/data/text.h"

namespace shoal {
namespace {

// Enough splits that a fleet of lanes stays busy to the end, none so small that leasing it costs more than reading it,
// none so large that losing one hurts.
constexpr uint64_t kDefaultSplits = 1024;
constexpr uint64_t kMinSplitBytes = 64 << 10;
constexpr uint64_t kMaxSplitBytes = 64 << 20;
// What a synthetic row would take as text, so that data.split_bytes has a meaning for it.
constexpr uint64_t kSyntheticRowBytes = 256;

// A batch never crosses a split: with so many to a split few are cut short, and leasing and opening one costs little
// beside training it.
constexpr uint64_t kBatchesPerSplit = 8;
// But a small input is cut into so many at least, or lanes would find nothing to do.
constexpr uint64_t kFewestSplits = 64;
// Records looked at, in each file, to learn how long one is.
constexpr uint64_t kSampledRecords = 256;

// batch_bytes: of a batch of mean records; 0: not known.
uint64_t SplitBytes(const Data& data, uint64_t content_bytes, uint64_t batch_bytes) {
  if (data.split_bytes() != 0) return data.split_bytes();
  const uint64_t wanted =
      batch_bytes > kMaxSplitBytes / kBatchesPerSplit ? kMaxSplitBytes : batch_bytes * kBatchesPerSplit;
  const uint64_t several_batches = std::min(wanted, content_bytes / kFewestSplits);
  return std::min(std::max({content_bytes / kDefaultSplits, kMinSplitBytes, several_batches}), kMaxSplitBytes);
}

// The files that `pattern` stands for, in byte order of their names.
absl::StatusOr<std::vector<std::string>> Expand(const std::string& pattern, absl::string_view field) {
  if (pattern.empty() || pattern[0] != '/') {
    return absl::InvalidArgumentError(absl::StrCat(field, ".path: ", Quoted(pattern), ": expected an absolute path"));
  }
  struct stat info;
  // A file whose name happens to hold a '[' is meant as it is.
  if (pattern.find_first_of("*?[") == std::string::npos || stat(pattern.c_str(), &info) == 0) {
    return std::vector<std::string>{pattern};
  }
  glob_t found = {};
  const int code = glob(pattern.c_str(), GLOB_NOSORT, nullptr, &found);
  std::vector<std::string> paths(found.gl_pathv, found.gl_pathv + (code == 0 ? found.gl_pathc : 0));
  globfree(&found);
  if (paths.empty()) {
    return absl::NotFoundError(absl::StrCat(field, ".path: no file matches ", pattern));
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

struct RowRange {
  uint64_t begin = 0;
  uint64_t end = std::numeric_limits<uint64_t>::max();
  bool whole() const { return begin == 0 && end == std::numeric_limits<uint64_t>::max(); }
};

absl::StatusOr<RowRange> Rows(const Input& input, absl::string_view field) {
  RowRange rows;
  if (input.rows().empty()) return rows;
  if (input.rows_size() != 2 || input.rows(0) >= input.rows(1)) {
    return absl::InvalidArgumentError(absl::StrCat(field, ".rows: expected [first, last) with first < last"));
  }
  rows.begin = input.rows(0);
  rows.end = input.rows(1);
  return rows;
}

// One file on its way into the plan.
struct OpenFile {
  std::shared_ptr<const FileContent> content;
  InputFile file;
  FileLayout layout;
  RowRange rows;
};

absl::StatusOr<std::vector<OpenFile>> OpenFiles(const google::protobuf::RepeatedPtrField<Input>& inputs,
                                                const RecordFormat& format, absl::string_view field) {
  std::vector<OpenFile> files;
  for (int i = 0; i < inputs.size(); ++i) {
    const std::string input_field = absl::StrCat(field, "[", i, "]");
    SHOAL_ASSIGN_OR_RETURN(const RowRange rows, Rows(inputs[i], input_field));
    SHOAL_ASSIGN_OR_RETURN(const std::vector<std::string> paths, Expand(inputs[i].path(), input_field));
    for (const std::string& path : paths) {
      OpenFile open;
      SHOAL_ASSIGN_OR_RETURN(open.content, FileContent::Open(path));
      open.file.set_path(path);
      open.file.set_file_bytes(open.content->file_bytes());
      open.file.set_content_bytes(open.content->size());
      SHOAL_ASSIGN_OR_RETURN(const uint64_t hash, open.content->Hash());
      open.file.set_content_hash(hash);
      SHOAL_ASSIGN_OR_RETURN(open.layout, format.Inspect(open.content, &open.file));
      open.rows = rows;
      files.push_back(std::move(open));
    }
  }
  return files;
}

void AddSplit(uint32_t file, uint64_t begin, uint64_t end, InputPlan* plan) {
  Split* split = plan->add_splits();
  split->set_file(file);
  split->set_begin(begin);
  split->set_end(end);
}

absl::Status RowsOutOfRange(const OpenFile& open, uint64_t records) {
  return absl::OutOfRangeError(absl::StrCat(open.file.path(), ": rows [", open.rows.begin, ", ", open.rows.end,
                                            "): the file has ", records, " records"));
}

// Records of one size: boundaries are arithmetic.
absl::Status CutFixed(const OpenFile& open, uint32_t index, uint64_t split_bytes, InputPlan* plan) {
  const uint64_t size = open.layout.record_bytes;
  const uint64_t records = open.layout.declared_records;
  const uint64_t last = open.rows.whole() ? records : open.rows.end;
  if (last > records || open.rows.begin > records) return RowsOutOfRange(open, records);
  const uint64_t per_split = std::max<uint64_t>(split_bytes / size, 1);
  for (uint64_t record = open.rows.begin; record < last; record += per_split) {
    AddSplit(index, open.layout.first_record + record * size,
             open.layout.first_record + std::min(record + per_split, last) * size, plan);
  }
  plan->set_records(plan->records() + last - open.rows.begin);
  return absl::OkStatus();
}

// Text: one scan finds the record starts nearest behind the multiples of split_bytes, and the rows asked for.
absl::Status CutText(const OpenFile& open, uint32_t index, const TextFraming& framing, uint64_t split_bytes,
                     InputPlan* plan) {
  TextSource source(open.content, framing, open.layout.first_record, open.content->size());
  RawRecord record;
  uint64_t row = 0, split_begin = 0, range_end = 0;
  bool inside = false;
  for (;; ++row) {
    SHOAL_ASSIGN_OR_RETURN(const bool found, source.Next(&record));
    if (!found) break;
    if (row < open.rows.begin || row >= open.rows.end) continue;
    if (inside && record.offset / split_bytes != split_begin / split_bytes) {
      AddSplit(index, split_begin, record.offset, plan);
      split_begin = record.offset;
    }
    if (!inside) split_begin = record.offset;
    inside = true;
    range_end = source.next_offset();
  }
  if (inside) AddSplit(index, split_begin, range_end, plan);
  if (!open.rows.whole() && (open.rows.end > row || open.rows.begin >= row)) return RowsOutOfRange(open, row);
  const uint64_t declared = open.layout.declared_records;
  if (declared != FileLayout::kUndeclared && (row > declared || row + source.blank_lines() < declared)) {
    return absl::DataLossError(absl::StrCat(open.file.path(), ": the header declares ", declared,
                                            " rows, but the file has ", row, ": was it cut off?"));
  }
  plan->set_records(plan->records() + std::min(row, open.rows.end) - std::min(row, open.rows.begin));
  return absl::OkStatus();
}

// Mean size of the first records of all files; 0 when there is none.
absl::StatusOr<uint64_t> RecordBytes(const std::vector<OpenFile>& files, const RecordFormat& format) {
  uint64_t bytes = 0, records = 0;
  for (const OpenFile& open : files) {
    if (open.layout.record_bytes != 0) {
      bytes += open.layout.record_bytes;
      ++records;
      continue;
    }
    TextSource source(open.content, static_cast<const TextFormat&>(format).framing(), open.layout.first_record,
                      open.content->size());
    RawRecord record;
    uint64_t found = 0;
    for (; found < kSampledRecords; ++found) {
      SHOAL_ASSIGN_OR_RETURN(const bool more, source.Next(&record));
      if (!more) break;
    }
    if (found > 0) bytes += source.next_offset() - open.layout.first_record;
    records += found;
  }
  return records == 0 ? 0 : bytes / records;
}

// Without overflow: more than a split may have is all the same.
uint64_t BatchBytes(uint64_t batch_size, uint64_t record_bytes) {
  if (record_bytes == 0) return 0;
  return batch_size > kMaxSplitBytes / record_bytes ? kMaxSplitBytes : batch_size * record_bytes;
}

InputPlan PlanSynthetic(const Data& data, InputKind kind, uint64_t batch_size) {
  const SyntheticFormat& options = data.format().synthetic();
  // Evaluation rows are drawn after the training rows.
  const uint64_t begin = kind == InputKind::kTrain ? 0 : options.rows();
  const uint64_t end = kind == InputKind::kTrain ? options.rows() : options.rows() + options.eval_rows();
  InputPlan plan;
  if (begin == end) return plan;
  plan.add_files()->set_path("synthetic");
  const uint64_t bytes =
      std::min((end - begin), std::numeric_limits<uint64_t>::max() / kSyntheticRowBytes) * kSyntheticRowBytes;
  const uint64_t rows_per_split =
      std::max<uint64_t>(SplitBytes(data, bytes, BatchBytes(batch_size, kSyntheticRowBytes)) / kSyntheticRowBytes, 1);
  for (uint64_t row = begin; row < end; row += rows_per_split) {
    AddSplit(0, row, std::min(row + rows_per_split, end), &plan);
  }
  plan.set_records(end - begin);
  return plan;
}

}  // namespace

absl::StatusOr<InputPlan> PlanInputs(const Data& data, InputKind kind, uint64_t batch_size, Labels labels) {
  SHOAL_ASSIGN_OR_RETURN(const std::unique_ptr<RecordFormat> format, MakeFormat(data, labels));
  if (data.format().has_synthetic()) return PlanSynthetic(data, kind, batch_size);
  const bool train = kind == InputKind::kTrain;
  const absl::string_view field = train ? "data.train" : "data.eval";
  const auto& inputs = train ? data.train() : data.eval();
  if (inputs.empty() && train) return absl::InvalidArgumentError("data.train: expected at least one input");
  SHOAL_ASSIGN_OR_RETURN(std::vector<OpenFile> files, OpenFiles(inputs, *format, field));
  uint64_t content_bytes = 0;
  for (const OpenFile& open : files) content_bytes += open.file.content_bytes();
  SHOAL_ASSIGN_OR_RETURN(const uint64_t record_bytes, RecordBytes(files, *format));
  const uint64_t split_bytes = SplitBytes(data, content_bytes, BatchBytes(batch_size, record_bytes));
  InputPlan plan;
  for (size_t i = 0; i < files.size(); ++i) {
    const uint32_t index = static_cast<uint32_t>(i);
    if (files[i].layout.record_bytes != 0) {
      SHOAL_RETURN_IF_ERROR(CutFixed(files[i], index, split_bytes, &plan));
    } else {
      const TextFraming& framing = static_cast<const TextFormat&>(*format).framing();
      SHOAL_RETURN_IF_ERROR(CutText(files[i], index, framing, split_bytes, &plan));
    }
    *plan.add_files() = std::move(files[i].file);
  }
  if (plan.splits().empty() && !inputs.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(field, ": no records in ", plan.files(0).path(),
                                                   plan.files_size() > 1 ? " and the other files" : ""));
  }
  return plan;
}

absl::StatusOr<FeatureSchema> MakeSchema(const Data& data, const InputPlan& plan, Labels labels) {
  SHOAL_ASSIGN_OR_RETURN(const std::unique_ptr<RecordFormat> format, MakeFormat(data, labels));
  return format->Schema(plan);
}

}  // namespace shoal
