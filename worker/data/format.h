// A file format: what a file's head says, how it is cut into records, and how a record becomes a row.
#ifndef SHOAL_WORKER_DATA_FORMAT_H_
#define SHOAL_WORKER_DATA_FORMAT_H_

#include <cstdint>
#include <limits>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/job.pb.h"
#include "proto/plan.pb.h"
#include "worker/data/content.h"
#include "worker/data/labels.h"
#include "worker/data/record.h"
#include "worker/data/text_source.h"

namespace shoal {

// Where the records of a file stand.
struct FileLayout {
  uint64_t first_record = 0;  // offset of the first record, after byte order mark and header
  uint64_t record_bytes = 0;  // size of each record; 0: they differ
  // The number of records that the file's header declares; kUndeclared: it does not.
  static constexpr uint64_t kUndeclared = std::numeric_limits<uint64_t>::max();
  uint64_t declared_records = kUndeclared;
};

// One variant per format, each in its own file. Immutable after construction, so thread-safe.
class RecordFormat {
 public:
  virtual ~RecordFormat() = default;

  // Reads the head of a file; adds what the plan needs to know about it to *file (columns; label files to its hash).
  virtual absl::StatusOr<FileLayout> Inspect(const std::shared_ptr<const FileContent>& content,
                                             InputFile* file) const = 0;
  // Names of the dense values and slots, kind and number of labels.
  virtual absl::StatusOr<FeatureSchema> Schema(const InputPlan& plan) const = 0;
  // Cuts [begin, end), whose begin is the start of a record.
  virtual absl::StatusOr<std::unique_ptr<RecordSource>> OpenSource(const std::shared_ptr<const FileContent>& content,
                                                                   uint64_t begin, uint64_t end) const = 0;
  // With `want_ids` the parser appends to Batch::ids when HasIds().
  virtual absl::StatusOr<std::unique_ptr<RecordParser>> MakeParser(const std::shared_ptr<const FileContent>& content,
                                                                   const InputFile& file, const FeatureSchema& schema,
                                                                   bool want_ids) const = 0;
  virtual bool HasIds() const { return false; }
  // Whether messages say line numbers.
  virtual bool IsText() const { return true; }
};

// What the text formats share.
class TextFormat : public RecordFormat {
 public:
  explicit TextFormat(const TextFraming& framing) : framing_(framing) {}
  absl::StatusOr<std::unique_ptr<RecordSource>> OpenSource(const std::shared_ptr<const FileContent>& content,
                                                           uint64_t begin, uint64_t end) const override;
  const TextFraming& framing() const { return framing_; }

 protected:
  // The first record of the content (after a byte order mark) as text; NOT_FOUND when the file has none. Sets *next to
  // the offset behind it.
  absl::StatusOr<std::string> FirstRecord(const std::shared_ptr<const FileContent>& content, uint64_t* next) const;

 private:
  const TextFraming framing_;
};

// INVALID_ARGUMENT naming the field for settings that make no sense.
absl::StatusOr<std::unique_ptr<RecordFormat>> MakeCriteoFormat(const CriteoFormat& options, Labels labels);
absl::StatusOr<std::unique_ptr<RecordFormat>> MakeCsvFormat(const CsvFormat& options, const Columns& columns,
                                                            Labels labels);
absl::StatusOr<std::unique_ptr<RecordFormat>> MakeLibsvmFormat(const LibsvmFormat& options, Labels labels);
absl::StatusOr<std::unique_ptr<RecordFormat>> MakeXmcFormat();
absl::StatusOr<std::unique_ptr<RecordFormat>> MakeIdxFormat(const IdxFormat& options, Labels labels);
absl::StatusOr<std::unique_ptr<RecordFormat>> MakeSyntheticFormat(const SyntheticFormat& options);

// The format that data.format asks for.
absl::StatusOr<std::unique_ptr<RecordFormat>> MakeFormat(const Data& data, Labels labels);

// `option` as one character, `fallback` when it is empty; INVALID_ARGUMENT naming `field` for longer ones and for line
// ends.
absl::StatusOr<char> OneCharacter(const std::string& option, char fallback, absl::string_view field);

}  // namespace shoal

#endif  // SHOAL_WORKER_DATA_FORMAT_H_
