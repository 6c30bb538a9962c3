// Criteo display advertising: label, 13 integers, 26 categories. Blank lines are not records. Trailing fields that are
// missing may lack their separators, but a row that ends before C23, which the data never misses, was cut off.
#include "worker/data/criteo.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/data/field_cutter.h"
#include "worker/data/format.h"
#include "worker/data/text.h"

namespace shoal {
namespace {

constexpr uint32_t kIntegers = 13;
constexpr uint32_t kCategories = 26;
constexpr uint32_t kFields = 1 + kIntegers + kCategories;
constexpr uint32_t kLeastFields = 1 + kIntegers + 23;

std::string FieldName(uint32_t field) {
  if (field == 0) return "label";
  return field <= kIntegers ? absl::StrCat("I", field) : absl::StrCat("C", field - kIntegers);
}

// "12", "-1" and, as dumps through floating-point columns have it, "12.0".
bool ParseIntegerField(absl::string_view text, int64_t* x) {
  if (ParseInteger(text, x)) return true;
  const size_t point = text.find('.');
  if (point == absl::string_view::npos || point == 0) return false;
  return text.find_first_not_of('0', point + 1) == absl::string_view::npos && ParseInteger(text.substr(0, point), x);
}

// Digits only, and so few of them that they fit: nearly all there are.
bool ParseShort(absl::string_view text, int64_t* x) {
  if (text.empty() || text.size() > 18) return false;
  int64_t value = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return false;
    value = value * 10 + (c - '0');
  }
  *x = value;
  return true;
}

// Blanks around a field are not part of it.
absl::string_view Blankless(absl::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

class CriteoParser : public RecordParser {
 public:
  CriteoParser(const CriteoColumns& columns, char delimiter, Labels labels)
      : columns_(columns), delimiter_(delimiter), labels_(labels) {}

  bool Parse(const RawRecord& record, Batch* batch, Problem* problem) override {
    FieldCutter cutter(record.text, delimiter_);
    uint32_t field = 0;
    bool last = false;
    if (labels_ == Labels::kAbsent) {
      if (record.text.find(delimiter_) == absl::string_view::npos) return OneField(record, problem);
      batch->labels.push_back(0);
    } else {
      const absl::string_view label = Blankless(cutter.Next(&last));
      if (last) return OneField(record, problem);
      if (!AddLabel(label, batch, problem)) return false;
    }
    for (field = 1; !last && field <= kIntegers; ++field) {
      if (!AddInteger(field, Blankless(cutter.Next(&last)), batch, problem)) return false;
    }
    for (; !last && field < kFields; ++field) {
      columns_.AddCategory(field - 1 - kIntegers, Blankless(cutter.Next(&last)), batch);
    }
    const absl::string_view rest = cutter.rest();
    const uint32_t absent = labels_ == Labels::kAbsent ? 1 : 0;
    if (field < kLeastFields) {
      return Bad(problem, FieldName(field), "",
                 absl::StrCat("a row of ", kFields - absent,
                              " fields (missing ones may be cut off at the end, but not before C24"
                              "); this one has ",
                              field - absent, " and seems to be cut off"));
    }
    const char empty[2] = {delimiter_, ' '};
    const size_t extra = rest.find_first_not_of(absl::string_view(empty, 2));
    if (extra != absl::string_view::npos) {
      return Bad(
          problem, absl::StrCat("number ", kFields + 1 - absent + extra), rest.substr(extra),
          absl::StrCat("a row of ", kFields - absent, " fields: ", absent == 0 ? "label, " : "", "I1..I13, C1..C26"));
    }
    for (; field < kFields; ++field) AddMissing(field, batch);
    return true;
  }

 private:
  bool OneField(const RawRecord& record, Problem* problem) const {
    return Bad(problem, "number 2", record.text,
               absl::StrCat("a row of ", labels_ == Labels::kAbsent ? kFields - 1 : kFields,
                            " fields, this one has 1: ", DelimiterAdvice("data.format.criteo.delimiter", delimiter_)));
  }

  static bool AddLabel(absl::string_view text, Batch* batch, Problem* problem) {
    if (text.size() == 1 && (text[0] == '0' || text[0] == '1')) {
      batch->labels.push_back(static_cast<float>(text[0] - '0'));
      return true;
    }
    double label;
    if (!ParseNumber(text, &label) || (label != 0 && label != 1)) return Bad(problem, "label", text, "0 or 1");
    batch->labels.push_back(static_cast<float>(label));
    return true;
  }

  bool AddInteger(uint32_t field, absl::string_view text, Batch* batch, Problem* problem) {
    int64_t x = 0;
    if (!ParseShort(text, &x) && !text.empty() && !ParseIntegerField(text, &x)) {
      return Bad(problem, FieldName(field), text, "an integer of at most 64 bits, or nothing");
    }
    columns_.AddInteger(field - 1, text.empty(), x, batch);
    return true;
  }

  void AddMissing(uint32_t field, Batch* batch) {
    if (field <= kIntegers) {
      columns_.AddInteger(field - 1, true, 0, batch);
    } else {
      columns_.AddCategory(field - 1 - kIntegers, "", batch);
    }
  }

  const CriteoColumns& columns_;
  const char delimiter_;
  const Labels labels_;
};

class CriteoRecordFormat : public TextFormat {
 public:
  CriteoRecordFormat(const CriteoFormat& options, char delimiter, Labels labels)
      : TextFormat(TextFraming{}),
        columns_(kIntegers, kCategories, options.integers()),
        header_(options.header()),
        delimiter_(delimiter),
        labels_(labels) {}

  absl::StatusOr<FileLayout> Inspect(const std::shared_ptr<const FileContent>& content, InputFile*) const override {
    FileLayout layout;
    if (!header_) {
      SHOAL_ASSIGN_OR_RETURN(layout.first_record, SkipByteOrderMark(*content));
      return layout;
    }
    auto header = FirstRecord(content, &layout.first_record);
    if (absl::IsNotFound(header.status())) return layout;
    SHOAL_RETURN_IF_ERROR(header.status());
    double label;
    if (ParseNumber(header->substr(0, header->find(delimiter_)), &label)) {
      return absl::InvalidArgumentError(absl::StrCat(content->path(), ": line 1, byte offset 0: field label: value ",
                                                     Quoted(header->substr(0, header->find(delimiter_))),
                                                     ": expected the names of the columns (format.criteo.header)"));
    }
    return layout;
  }

  absl::StatusOr<FeatureSchema> Schema(const InputPlan&) const override { return columns_.Schema(); }

  absl::StatusOr<std::unique_ptr<RecordParser>> MakeParser(const std::shared_ptr<const FileContent>&, const InputFile&,
                                                           const FeatureSchema&, bool) const override {
    return std::make_unique<CriteoParser>(columns_, delimiter_, labels_);
  }

 private:
  const CriteoColumns columns_;
  const bool header_;
  const char delimiter_;
  const Labels labels_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RecordFormat>> MakeCriteoFormat(const CriteoFormat& options, Labels labels) {
  SHOAL_ASSIGN_OR_RETURN(const char delimiter, OneCharacter(options.delimiter(), '\t', "data.format.criteo.delimiter"));
  return std::make_unique<CriteoRecordFormat>(options, delimiter, labels);
}

}  // namespace shoal
