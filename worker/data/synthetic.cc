// Generated rows: nothing is read. A split counts rows, so a record's offset is its row.
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "worker/data/criteo.h"
#include "worker/data/format.h"
#include "worker/data/teacher.h"

namespace shoal {
namespace {

class SyntheticSource : public RecordSource {
 public:
  SyntheticSource(uint64_t begin, uint64_t end) : next_(begin), end_(end) {}
  absl::StatusOr<bool> Next(RawRecord* record) override {
    if (next_ >= end_) return false;
    record->offset = next_++;
    record->text = {};
    record->overlong = false;
    return true;
  }

 private:
  uint64_t next_;
  const uint64_t end_;
};

class SyntheticParser : public RecordParser {
 public:
  SyntheticParser(const Teacher& teacher, const CriteoColumns& columns) : teacher_(teacher), columns_(columns) {}

  bool Parse(const RawRecord& record, Batch* batch, Problem*) override {
    teacher_.MakeRow(record.offset, &row_);
    batch->labels.push_back(row_.label ? 1.f : 0.f);
    for (uint32_t i = 0; i < row_.integers.size(); ++i) {
      columns_.AddInteger(i, row_.integers[i] == SyntheticRow::kMissingInteger, row_.integers[i], batch);
    }
    char text[16];
    for (uint32_t c = 0; c < row_.ranks.size(); ++c) {
      const bool missing = row_.ranks[c] == SyntheticRow::kMissing;
      columns_.AddCategory(c, missing ? absl::string_view() : teacher_.IdText(c, row_.ranks[c], text), batch);
    }
    return true;
  }

 private:
  const Teacher& teacher_;
  const CriteoColumns& columns_;
  SyntheticRow row_;
};

class SyntheticRecordFormat : public RecordFormat {
 public:
  explicit SyntheticRecordFormat(const SyntheticFormat& options)
      : teacher_(options), columns_(teacher_.integers(), teacher_.categories(), options.integer_features()) {}

  absl::StatusOr<FileLayout> Inspect(const std::shared_ptr<const FileContent>&, InputFile*) const override {
    FileLayout layout;
    layout.record_bytes = 1;
    return layout;
  }
  absl::StatusOr<FeatureSchema> Schema(const InputPlan&) const override { return columns_.Schema(); }
  absl::StatusOr<std::unique_ptr<RecordSource>> OpenSource(const std::shared_ptr<const FileContent>&, uint64_t begin,
                                                           uint64_t end) const override {
    return std::make_unique<SyntheticSource>(begin, end);
  }
  absl::StatusOr<std::unique_ptr<RecordParser>> MakeParser(const std::shared_ptr<const FileContent>&, const InputFile&,
                                                           const FeatureSchema&, bool) const override {
    return std::make_unique<SyntheticParser>(teacher_, columns_);
  }
  bool IsText() const override { return false; }

 private:
  const Teacher teacher_;
  const CriteoColumns columns_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RecordFormat>> MakeSyntheticFormat(const SyntheticFormat& options) {
  if (options.rows() == 0) return absl::InvalidArgumentError("data.format.synthetic.rows: 0: expected at least 1");
  if (options.rows() > std::numeric_limits<uint64_t>::max() / 2 ||
      options.eval_rows() > std::numeric_limits<uint64_t>::max() / 2) {
    return absl::InvalidArgumentError("data.format.synthetic: rows and eval_rows: expected at most 2^63");
  }
  constexpr uint32_t kMaxColumns = 1024;
  if (options.categories() > kMaxColumns || options.integers() > kMaxColumns) {
    return absl::InvalidArgumentError(absl::StrCat("data.format.synthetic: categories ", options.categories(),
                                                   " and integers ", options.integers(), ": expected at most ",
                                                   kMaxColumns));
  }
  return std::make_unique<SyntheticRecordFormat>(options);
}

}  // namespace shoal
