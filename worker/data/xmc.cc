// Extreme multi-label repository format: a header "rows features labels", then "l1,l2 index:value ..."; a row that
// starts with a blank, or with index:value, has no labels. Blank lines are not records. Labels and indices count from
// 0 and must be below what the header says.
#include <algorithm>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/data/format.h"
#include "worker/data/index_value.h"
#include "worker/data/text.h"

namespace shoal {
namespace {

struct XmcHeader {
  uint64_t rows = 0, features = 0, labels = 0;
};

bool ParseHeader(absl::string_view line, XmcHeader* header) {
  return ParseUnsigned(NextToken(&line), &header->rows) && ParseUnsigned(NextToken(&line), &header->features) &&
         ParseUnsigned(NextToken(&line), &header->labels) && NextToken(&line).empty();
}

class XmcParser : public RecordParser {
 public:
  XmcParser(const IndexValueParser::Limits& limits, uint32_t label_count)
      : features_(limits), label_count_(label_count) {}

  bool Parse(const RawRecord& record, Batch* batch, Problem* problem) override {
    absl::string_view rest = record.text;
    // The label set ends at the first blank, so that a leading blank means an empty set.
    const absl::string_view labels = rest.substr(0, rest.find_first_of(" \t"));
    if (!absl::StrContains(labels, ':')) {
      rest.remove_prefix(labels.size());
      if (!ParseLabels(labels, batch, problem)) return false;
    }
    return features_.Parse(rest, batch, problem);
  }

 private:
  bool ParseLabels(absl::string_view labels, Batch* batch, Problem* problem) {
    if (labels.empty()) return true;
    const size_t first = batch->label_ids.size();
    for (bool more = true; more;) {
      const size_t comma = labels.find(',');
      const absl::string_view text = labels.substr(0, comma);
      more = comma != absl::string_view::npos;
      labels.remove_prefix(more ? comma + 1 : labels.size());
      if (text.empty() && !more) break;  // a trailing comma
      uint64_t label;
      if (!ParseUnsigned(text, &label) || label >= label_count_) {
        return Bad(problem, "label", text, absl::StrCat("integers below ", label_count_, " joined by commas"));
      }
      batch->label_ids.push_back(static_cast<uint32_t>(label));
    }
    // A set: in ascending order, each label once.
    const auto begin = batch->label_ids.begin() + first;
    std::sort(begin, batch->label_ids.end());
    batch->label_ids.erase(std::unique(begin, batch->label_ids.end()), batch->label_ids.end());
    return true;
  }

  IndexValueParser features_;
  const uint32_t label_count_;
};

class XmcRecordFormat : public TextFormat {
 public:
  XmcRecordFormat() : TextFormat(Framing()) {}

  absl::StatusOr<FileLayout> Inspect(const std::shared_ptr<const FileContent>& content,
                                     InputFile* file) const override {
    FileLayout layout;
    SHOAL_ASSIGN_OR_RETURN(const XmcHeader header, ReadHeader(content, &layout.first_record));
    layout.declared_records = header.rows;
    return layout;
  }

  absl::StatusOr<FeatureSchema> Schema(const InputPlan& plan) const override {
    FeatureSchema schema;
    schema.set_label_kind(FeatureSchema::MULTI_LABEL);
    schema.add_slots(kIndexSlot);
    uint64_t labels = 0;
    for (const InputFile& file : plan.files()) {
      SHOAL_ASSIGN_OR_RETURN(const auto content, FileContent::Open(file.path()));
      uint64_t first_record;
      SHOAL_ASSIGN_OR_RETURN(const XmcHeader header, ReadHeader(content, &first_record));
      labels = std::max(labels, header.labels);
    }
    schema.set_label_count(static_cast<uint32_t>(labels));
    return schema;
  }

  absl::StatusOr<std::unique_ptr<RecordParser>> MakeParser(const std::shared_ptr<const FileContent>& content,
                                                           const InputFile&, const FeatureSchema& schema,
                                                           bool) const override {
    uint64_t first_record;
    SHOAL_ASSIGN_OR_RETURN(const XmcHeader header, ReadHeader(content, &first_record));
    IndexValueParser::Limits limits;
    limits.index_limit = header.features;
    const uint64_t labels = schema.label_count() != 0 ? schema.label_count() : header.labels;
    return std::make_unique<XmcParser>(limits, static_cast<uint32_t>(labels));
  }

 private:
  static TextFraming Framing() {
    TextFraming framing;
    framing.tabs_are_blank = true;
    return framing;
  }

  absl::StatusOr<XmcHeader> ReadHeader(const std::shared_ptr<const FileContent>& content,
                                       uint64_t* first_record) const {
    SHOAL_ASSIGN_OR_RETURN(const std::string line, FirstRecord(content, first_record));
    XmcHeader header;
    constexpr uint64_t kMaxLabels = 100'000'000;  // as many as a model may have outputs
    if (!ParseHeader(line, &header) || header.features == 0 || header.labels == 0 || header.labels > kMaxLabels) {
      return absl::InvalidArgumentError(absl::StrCat(
          content->path(), ": line 1, byte offset 0: field header: value ", Quoted(line),
          ": expected three integers \"rows features labels\", features at least 1, labels 1 to ", kMaxLabels));
    }
    return header;
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<RecordFormat>> MakeXmcFormat() { return std::make_unique<XmcRecordFormat>(); }

}  // namespace shoal
