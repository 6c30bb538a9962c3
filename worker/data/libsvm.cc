// libsvm / svmlight: "label index:value ...". Blank lines and lines of a comment only are not records; '#' starts a
// comment anywhere. The label "-1" is read as 0, so that both conventions for binary labels mean the same; every other
// number, "-1.0" too, stays as it is (regression).
#include <cmath>

#include "absl/strings/match.h"
#include "base/status_macros.h"
#include "worker/data/format.h"
#include "worker/data/index_value.h"
#include "worker/data/text.h"

namespace shoal {
namespace {

class LibsvmParser : public RecordParser {
 public:
  LibsvmParser(const IndexValueParser::Limits& limits, Labels labels) : features_(limits), labels_(labels) {}

  bool Parse(const RawRecord& record, Batch* batch, Problem* problem) override {
    absl::string_view rest = record.text.substr(0, record.text.find('#'));
    const absl::string_view all = rest;
    const absl::string_view text = NextToken(&rest);
    if (labels_ == Labels::kAbsent && absl::StrContains(text, ':')) {
      batch->labels.push_back(0);
      return features_.Parse(all, batch, problem);
    }
    float label;
    if (!ParseFiniteFloat(text, &label)) return Bad(problem, "label", text, Expected(text));
    batch->labels.push_back(text == "-1" ? 0.f : label);
    return features_.Parse(rest, batch, problem);
  }

 private:
  static absl::string_view Expected(absl::string_view label) {
    if (absl::StrContains(label, ':')) return "a number before the first index:value";
    if (absl::StrContains(label, ',')) return "one number (several labels are read with format xmc)";
    return "a finite number";
  }

  IndexValueParser features_;
  const Labels labels_;
};

class LibsvmRecordFormat : public TextFormat {
 public:
  LibsvmRecordFormat(const LibsvmFormat& options, Labels labels) : TextFormat(Framing()), labels_(labels) {
    limits_.one_based = options.one_based();
    limits_.skip_qid = true;
  }

  absl::StatusOr<FileLayout> Inspect(const std::shared_ptr<const FileContent>& content, InputFile*) const override {
    FileLayout layout;
    SHOAL_ASSIGN_OR_RETURN(layout.first_record, SkipByteOrderMark(*content));
    return layout;
  }
  absl::StatusOr<FeatureSchema> Schema(const InputPlan&) const override {
    FeatureSchema schema;
    schema.set_label_kind(FeatureSchema::NUMBER);
    schema.add_slots(kIndexSlot);
    return schema;
  }
  absl::StatusOr<std::unique_ptr<RecordParser>> MakeParser(const std::shared_ptr<const FileContent>&, const InputFile&,
                                                           const FeatureSchema&, bool) const override {
    return std::make_unique<LibsvmParser>(limits_, labels_);
  }

 private:
  static TextFraming Framing() {
    TextFraming framing;
    framing.tabs_are_blank = true;
    framing.comment = '#';
    return framing;
  }

  IndexValueParser::Limits limits_;
  const Labels labels_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<RecordFormat>> MakeLibsvmFormat(const LibsvmFormat& options, Labels labels) {
  return std::make_unique<LibsvmRecordFormat>(options, labels);
}

}  // namespace shoal
