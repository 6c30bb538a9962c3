// Comma separated values. Lines that are empty or hold only spaces are not records. A missing category is the empty
// token; the tokens of a cross are joined by the byte 0x1f. Fields beyond the last column are fine while empty
// (trailing separators); a record with fewer or more fields is bad.
#include "worker/data/csv.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/hash.h"
#include "base/status_macros.h"
#include "worker/data/format.h"
#include "worker/data/text.h"

namespace shoal {
namespace {

constexpr char kCrossJoiner = '\x1f';  // "unit separator": does not occur in text

// Spaces, and tabs unless they separate fields.
absl::string_view TrimBlanks(absl::string_view text, char delimiter) {
  const auto blank = [delimiter](char c) { return c == ' ' || (c == '\t' && delimiter != '\t'); };
  while (!text.empty() && blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && blank(text.back())) text.remove_suffix(1);
  return text;
}

class CsvParser : public RecordParser {
 public:
  CsvParser(const CsvDialect& dialect, CsvProgram program, std::vector<std::string> names, const FeatureSchema& schema,
            bool want_ids)
      : dialect_(dialect),
        splitter_(dialect),
        program_(std::move(program)),
        names_(std::move(names)),
        want_ids_(want_ids) {
    for (const std::string& slot : schema.slots()) slot_seeds_.push_back(SlotSeed(slot));
  }

  bool Parse(const RawRecord& record, Batch* batch, Problem* problem) override {
    if (!splitter_.Split(record.text, problem)) {
      const size_t at = splitter_.fields().size();
      problem->field = at < names_.size() ? names_[at] : absl::StrCat("number ", at + 1);
      return false;
    }
    if (!CheckCount(record, problem) || !AddLabel(batch, problem)) return false;
    for (const CsvDense& dense : program_.dense) {
      if (!AddDense(dense, batch, problem)) return false;
    }
    for (size_t i = 0; i < program_.sparse.size(); ++i) {
      if (!AddSparse(program_.sparse[i], slot_seeds_[i], &batch->slots[i], problem)) return false;
    }
    if (want_ids_ && program_.id != CsvProgram::kNoColumn) batch->ids.emplace_back(Field(program_.id));
    return true;
  }

 private:
  absl::string_view Field(uint32_t column) const { return splitter_.fields()[column]; }
  bool Missing(absl::string_view field) const {
    return field.empty() || (!dialect_.missing.empty() && field == dialect_.missing);
  }

  bool CheckCount(const RawRecord& record, Problem* problem) {
    const auto& fields = splitter_.fields();
    size_t count = fields.size();
    while (count > names_.size() && TrimBlanks(fields[count - 1], dialect_.delimiter).empty()) --count;
    if (count == names_.size()) return true;
    const bool fewer = count < names_.size();
    return Bad(problem, fewer ? names_[count] : absl::StrCat("number ", names_.size() + 1),
               fewer ? record.text : fields[names_.size()],
               absl::StrCat("a record of ", names_.size(), " fields, this one has ", count, count == 1 ? ": " : "",
                            count == 1 ? DelimiterAdvice("data.format.csv.delimiter", dialect_.delimiter) : ""));
  }

  bool AddLabel(Batch* batch, Problem* problem) {
    if (program_.label == CsvProgram::kNoColumn) {
      batch->labels.push_back(0);
      return true;
    }
    const absl::string_view field = Field(program_.label);
    if (Missing(field)) return Bad(problem, names_[program_.label], field, "a label");
    float label;
    if (!program_.positive.empty()) {
      label = std::find(program_.positive.begin(), program_.positive.end(), field) != program_.positive.end();
    } else if (!ParseFiniteFloat(Trim(field), &label)) {
      return Bad(problem, names_[program_.label], field,
                 "a finite number (or name the values that mean 1 in data.columns.label.positive)");
    }
    batch->labels.push_back(label);
    return true;
  }

  bool AddDense(const CsvDense& dense, Batch* batch, Problem* problem) {
    const absl::string_view field = Field(dense.column);
    float value = dense.missing;
    if (!Missing(field)) {
      double number;
      if (!ParseNumber(Trim(field), &number) || !std::isfinite(number)) {
        return Bad(problem, names_[dense.column], field, "a finite number, or a missing value");
      }
      if (dense.log1p) number = std::log1p(std::max(number, 0.0));
      value = static_cast<float>((number - dense.offset) * dense.scale);
      if (!std::isfinite(value)) {
        return Bad(problem, names_[dense.column], field,
                   "a number that stays finite when offset and scale are applied");
      }
    }
    batch->dense.push_back(value);
    return true;
  }

  // *token is the field itself, or lies in scratch_.
  bool MakeToken(const CsvToken& part, absl::string_view* token, Problem* problem) {
    const absl::string_view field = Field(part.column);
    *token = Missing(field) ? absl::string_view() : field;
    if (part.boundaries.empty() || token->empty()) return true;
    double number;
    if (!ParseNumber(Trim(field), &number) || std::isnan(number)) {
      return Bad(problem, names_[part.column], field, "a number to bucketize, or a missing value");
    }
    const auto bucket =
        std::upper_bound(part.boundaries.begin(), part.boundaries.end(), number) - part.boundaries.begin();
    scratch_.clear();
    absl::StrAppend(&scratch_, bucket);
    *token = scratch_;
    return true;
  }

  bool AddSparse(const CsvSparse& sparse, uint64_t seed, SlotColumn* slot, Problem* problem) {
    absl::string_view token;
    if (sparse.parts.size() > 1) {
      cross_.clear();
      for (size_t i = 0; i < sparse.parts.size(); ++i) {
        if (!MakeToken(sparse.parts[i], &token, problem)) return false;
        if (i > 0) cross_.push_back(kCrossJoiner);
        cross_.append(token.data(), token.size());
      }
      slot->keys.push_back(FeatureKey(seed, cross_));
      return true;
    }
    if (!MakeToken(sparse.parts[0], &token, problem)) return false;
    if (sparse.separator == '\0' || token.empty()) {
      slot->keys.push_back(FeatureKey(seed, token));
      return true;
    }
    for (bool more = true; more;) {
      const size_t end = token.find(sparse.separator);
      more = end != absl::string_view::npos;
      const absl::string_view piece = Trim(token.substr(0, end));
      if (!piece.empty()) slot->keys.push_back(FeatureKey(seed, piece));
      token.remove_prefix(more ? end + 1 : token.size());
    }
    return true;
  }

  const CsvDialect& dialect_;
  CsvSplitter splitter_;
  const CsvProgram program_;
  const std::vector<std::string> names_;
  const bool want_ids_;
  std::vector<uint64_t> slot_seeds_;
  std::string scratch_, cross_;
};

class CsvRecordFormat : public TextFormat {
 public:
  CsvRecordFormat(const CsvDialect& dialect, bool header, const Columns& columns, Labels labels)
      : TextFormat(TextFraming{dialect.quote, dialect.delimiter, dialect.trim, false, '\0'}),
        dialect_(dialect),
        header_(header),
        columns_(columns),
        labels_(labels) {}

  absl::StatusOr<FileLayout> Inspect(const std::shared_ptr<const FileContent>& content,
                                     InputFile* file) const override {
    FileLayout layout;
    uint64_t next;
    auto first = FirstRecord(content, &next);
    if (!first.ok()) return first.status();
    CsvSplitter splitter(dialect_);
    Problem problem;
    if (!splitter.Split(*first, &problem)) {
      return absl::InvalidArgumentError(absl::StrCat(content->path(), ": line 1, byte offset 0: value ",
                                                     Quoted(problem.value), ": expected ", problem.expected));
    }
    for (size_t i = 0; i < splitter.fields().size(); ++i) {
      *file->add_columns() = header_ ? std::string(splitter.fields()[i]) : absl::StrCat("c", i);
    }
    // A trailing separator names no column.
    while (header_ && file->columns_size() > 1 && file->columns(file->columns_size() - 1).empty()) {
      file->mutable_columns()->RemoveLast();
    }
    if (header_) {
      layout.first_record = next;
    } else {
      SHOAL_ASSIGN_OR_RETURN(layout.first_record, SkipByteOrderMark(*content));
    }
    return layout;
  }

  absl::StatusOr<FeatureSchema> Schema(const InputPlan& plan) const override {
    if (plan.files().empty()) return absl::InvalidArgumentError("data.train: no files, so columns are not known");
    for (const InputFile& file : plan.files()) SHOAL_RETURN_IF_ERROR(Compile(file).status());
    FeatureSchema schema;
    schema.set_label_kind(FeatureSchema::NUMBER);
    for (const DenseColumn& column : columns_.dense()) schema.add_dense(column.column());
    for (const SparseFeature& feature : columns_.sparse()) schema.add_slots(SparseName(feature));
    return schema;
  }

  absl::StatusOr<std::unique_ptr<RecordParser>> MakeParser(const std::shared_ptr<const FileContent>&,
                                                           const InputFile& file, const FeatureSchema& schema,
                                                           bool want_ids) const override {
    SHOAL_ASSIGN_OR_RETURN(CsvProgram program, Compile(file));
    return std::make_unique<CsvParser>(dialect_, std::move(program), Names(file), schema, want_ids);
  }

  bool HasIds() const override { return !columns_.id().empty(); }

 private:
  static std::vector<std::string> Names(const InputFile& file) {
    return std::vector<std::string>(file.columns().begin(), file.columns().end());
  }
  absl::StatusOr<CsvProgram> Compile(const InputFile& file) const {
    return CompileColumns(columns_, Names(file), file.path(), dialect_.delimiter, labels_);
  }

  const CsvDialect dialect_;
  const bool header_;
  const Columns columns_;
  const Labels labels_;
};

}  // namespace

bool CsvSplitter::TakeQuoted(absl::string_view* rest, absl::string_view* field, Problem* problem) {
  const absl::string_view all = *rest;
  rest->remove_prefix(1);
  const absl::string_view body = *rest;
  std::string* unescaped = nullptr;
  for (;;) {
    const size_t quote = rest->find(dialect_.quote);
    if (quote == absl::string_view::npos) return Bad(problem, "", all, "a closing quote");
    const bool doubled = quote + 1 < rest->size() && (*rest)[quote + 1] == dialect_.quote;
    if (doubled && unescaped == nullptr) {
      if (unescaped_used_ == unescaped_.size()) unescaped_.emplace_back();
      unescaped = &unescaped_[unescaped_used_++];
      unescaped->clear();
    }
    if (unescaped != nullptr) unescaped->append(rest->data(), quote + (doubled ? 1 : 0));
    rest->remove_prefix(quote + (doubled ? 2 : 1));
    if (doubled) continue;
    *field = unescaped != nullptr ? absl::string_view(*unescaped) : body.substr(0, quote);
    break;
  }
  const absl::string_view tail = rest->substr(0, rest->find(dialect_.delimiter));
  if (!TrimBlanks(tail, dialect_.delimiter).empty()) {
    return Bad(problem, "", all.substr(0, all.size() - rest->size() + tail.size()),
               "a separator or the end of the record behind the closing quote");
  }
  rest->remove_prefix(tail.size());
  return true;
}

bool CsvSplitter::Split(absl::string_view record, Problem* problem) {
  fields_.clear();
  unescaped_used_ = 0;
  absl::string_view rest = record;
  for (;;) {
    absl::string_view ahead = rest;
    if (dialect_.trim) {
      while (!ahead.empty() && ahead.front() != dialect_.delimiter && (ahead.front() == ' ' || ahead.front() == '\t')) {
        ahead.remove_prefix(1);
      }
    }
    absl::string_view field;
    if (dialect_.quote != '\0' && !ahead.empty() && ahead.front() == dialect_.quote) {
      rest = ahead;
      if (!TakeQuoted(&rest, &field, problem)) return false;
    } else {
      field = rest.substr(0, rest.find(dialect_.delimiter));
      rest.remove_prefix(field.size());
    }
    fields_.push_back(dialect_.trim ? TrimBlanks(field, dialect_.delimiter) : field);
    if (rest.empty()) return true;
    rest.remove_prefix(1);  // the delimiter
  }
}

absl::StatusOr<std::unique_ptr<RecordFormat>> MakeCsvFormat(const CsvFormat& options, const Columns& columns,
                                                            Labels labels) {
  CsvDialect dialect;
  SHOAL_ASSIGN_OR_RETURN(dialect.delimiter, OneCharacter(options.delimiter(), ',', "data.format.csv.delimiter"));
  SHOAL_ASSIGN_OR_RETURN(dialect.quote, OneCharacter(options.quote(), '\0', "data.format.csv.quote"));
  if (dialect.quote == dialect.delimiter) {
    return absl::InvalidArgumentError("data.format.csv.quote: is the same character as the delimiter");
  }
  dialect.trim = options.trim();
  dialect.missing = options.missing();
  return std::make_unique<CsvRecordFormat>(dialect, options.header(), columns, labels);
}

}  // namespace shoal
