#include "worker/data/format.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "worker/data/text.h"

namespace shoal {

absl::StatusOr<std::unique_ptr<RecordSource>> TextFormat::OpenSource(const std::shared_ptr<const FileContent>& content,
                                                                     uint64_t begin, uint64_t end) const {
  return std::make_unique<TextSource>(content, framing_, begin, end);
}

absl::StatusOr<std::string> TextFormat::FirstRecord(const std::shared_ptr<const FileContent>& content,
                                                    uint64_t* next) const {
  SHOAL_ASSIGN_OR_RETURN(const uint64_t begin, SkipByteOrderMark(*content));
  TextSource source(content, framing_, begin, content->size());
  RawRecord record;
  SHOAL_ASSIGN_OR_RETURN(const bool found, source.Next(&record));
  *next = source.next_offset();
  if (!found) return absl::NotFoundError(absl::StrCat(content->path(), ": is empty"));
  if (record.overlong) {
    return absl::InvalidArgumentError(absl::StrCat(content->path(), ": line 1, byte offset ", record.offset,
                                                   ": the first record ", Quoted(record.text), " is longer than ",
                                                   kMaxRecordBytes, " bytes: is a quote never closed?"));
  }
  return std::string(record.text);
}

absl::StatusOr<char> OneCharacter(const std::string& option, char fallback, absl::string_view field) {
  if (option.empty()) return fallback;
  if (option.size() > 1 || option[0] == '\n' || option[0] == '\r') {
    return absl::InvalidArgumentError(
        absl::StrCat(field, ": ", Quoted(option), ": expected one character other than a line end"));
  }
  return option[0];
}

absl::StatusOr<std::unique_ptr<RecordFormat>> MakeFormat(const Data& data, Labels labels) {
  switch (data.format().kind_case()) {
    case Format::kCriteo:
      return MakeCriteoFormat(data.format().criteo(), labels);
    case Format::kCsv:
      return MakeCsvFormat(data.format().csv(), data.columns(), labels);
    case Format::kLibsvm:
      return MakeLibsvmFormat(data.format().libsvm(), labels);
    case Format::kXmc:
      return MakeXmcFormat();
    case Format::kIdx:
      return MakeIdxFormat(data.format().idx(), labels);
    case Format::kSynthetic:
      return MakeSyntheticFormat(data.format().synthetic());
    case Format::KIND_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("data.format: expected one of criteo, csv, libsvm, xmc, idx, synthetic");
}

}  // namespace shoal
