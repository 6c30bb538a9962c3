// The bytes of a checkpoint part (docs/checkpoint-format.md): encoding and checked decoding, without files.
#ifndef SHOAL_SERVER_CHECKPOINT_PART_FORMAT_H_
#define SHOAL_SERVER_CHECKPOINT_PART_FORMAT_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace shoal {

inline constexpr uint32_t kCheckpointFormatVersion = 2;

// What is the same for all partitions of a part.
struct PartHeader {
  struct Table {
    std::string name;
    uint32_t dim = 0;
    uint32_t state = 0;  // floats of optimizer state per row
  };
  uint64_t job = 0;
  uint64_t run = 0;
  uint32_t partitions = 0;  // of the job
  std::vector<Table> tables;
  std::vector<std::string> tensors;
  std::vector<std::string> slots;  // of the job; keys carry an index into them
  // What slots of keys are below: a job without slots has one for all keys.
  uint32_t slot_count() const { return slots.empty() ? 1 : static_cast<uint32_t>(slots.size()); }
};

// Bytes of a row, or of a counted key, beside its values.
inline constexpr uint64_t kSectionRowBytes = 24;

// One partition's progress.
struct PartitionProgress {
  // Of `base`: the section holds everything.
  static constexpr uint64_t kNoBase = ~uint64_t{0};
  struct OpenSplit {
    uint64_t number = 0;
    uint64_t lease = 0;
    uint64_t watermark = 0;
  };
  uint32_t partition = 0;
  uint64_t base = kNoBase;  // a delta's: the version of the partition that it changes
  uint64_t version = 0;     // of the partition: counts its changes
  uint64_t examples = 0;
  uint64_t rounds_applied = 0;
  uint64_t done_prefix = 0;
  std::vector<uint64_t> done_extra;
  std::vector<OpenSplit> open;
};

struct PartBlock {
  uint32_t tensor = 0;
  uint64_t index = 0;
  uint64_t offset = 0;
  absl::Span<const float> weights;
  absl::Span<const float> state;
};

// One entry of a part's index.
struct PartEntry {
  uint32_t partition = 0;
  bool delta = false;   // holds what changed since the same partition's section in the parent
  uint64_t offset = 0;  // of the section in the file
  uint64_t bytes = 0;
  uint64_t checksum = 0;
  uint64_t rows = 0;
  uint64_t counted = 0;
  uint64_t erased = 0;  // keys that a delta takes away
};

// Appends one partition's section to a string, in this order: progress; per table BeginTable, its rows, its counted
// keys; BeginBlocks, the blocks. Not thread-safe.
class SectionWriter {
 public:
  explicit SectionWriter(std::string* out) : out_(out) {}
  void Progress(const PartitionProgress& progress, uint32_t tables);
  // Rows, counted and erased keys may follow in any order; EndTable writes their counts.
  void BeginTable();
  void Row(uint64_t key, uint32_t slot, uint64_t touched, absl::Span<const float> values);
  void Counted(uint64_t key, uint32_t slot, uint64_t touched, uint32_t count);
  void Erased(uint64_t key);
  void EndTable();
  void BeginBlocks(uint64_t count);
  void Block(const PartBlock& block);
  uint64_t rows() const { return rows_; }
  uint64_t counted() const { return counted_; }
  uint64_t erased() const { return erased_; }

 private:
  std::string* const out_;
  std::string counted_bytes_, erased_bytes_;
  size_t table_at_ = 0;
  uint64_t rows_ = 0, counted_ = 0, erased_ = 0;                    // of the section
  uint64_t table_rows_ = 0, table_counted_ = 0, table_erased_ = 0;  // of the table
};

// Receives a parsed section. A bad status from any of them ends the parsing and is returned.
class SectionVisitor {
 public:
  virtual ~SectionVisitor() = default;
  virtual absl::Status Progress(const PartitionProgress& progress) = 0;
  // Before the rows of each table: how many rows and counted keys follow.
  virtual void Table(uint32_t table, uint64_t rows, uint64_t counted) {}
  virtual absl::Status Row(uint32_t table, uint64_t key, uint32_t slot, uint64_t touched,
                           absl::Span<const float> values) = 0;
  virtual absl::Status Counted(uint32_t table, uint64_t key, uint32_t slot, uint64_t touched, uint32_t count) = 0;
  // Deltas only.
  virtual absl::Status Erased(uint32_t table, uint64_t key) = 0;
  virtual absl::Status Block(const PartBlock& block) = 0;
};

// INVALID_ARGUMENT says where partitions, tables, tensors or slots differ from those that `whose` has ("the job").
absl::Status CheckHeader(const PartHeader& saved, const PartHeader& wanted, absl::string_view whose);

// Header with magic and checksum.
std::string EncodePartHeader(const PartHeader& header);
// Parses a header at the start of `bytes`; *consumed is its length. DATA_LOSS names what is wrong.
absl::StatusOr<PartHeader> ParsePartHeader(absl::string_view bytes, uint64_t* consumed);

// Index and footer, for sections that end at `index_offset`.
std::string EncodePartIndex(absl::Span<const PartEntry> entries, uint64_t index_offset);
// Length of the footer, the last bytes of a file.
inline constexpr uint64_t kPartFooterBytes = 32;
struct PartFooter {
  uint64_t index_offset = 0;
  uint64_t index_bytes = 0;
  uint64_t index_checksum = 0;
};
// `footer`: the last kPartFooterBytes of a file of `file_bytes`.
absl::StatusOr<PartFooter> ParsePartFooter(absl::string_view footer, uint64_t file_bytes);
// Checks offsets against the file, order of partitions and the checksum.
absl::StatusOr<std::vector<PartEntry>> ParsePartIndex(absl::string_view index, const PartFooter& footer,
                                                      uint32_t partitions);

// A section by itself, as servers send it to each other: a head that says what its index entry would say, then the
// section. `shape` (HashBytes of a header) tells apart jobs whose tables differ.
inline constexpr uint64_t kImageHeadBytes = 72;
// Fills the first kImageHeadBytes of `image`, whose section follows them. `entry`: as for PartWriter::Add.
void SealImage(PartEntry entry, uint64_t shape, std::string* image);
// DATA_LOSS or INVALID_ARGUMENT say what is wrong with the head; *section views the rest, which ParseSection checks.
absl::StatusOr<PartEntry> ParseImage(absl::string_view image, uint64_t shape, absl::string_view* section);

// Checks the section's checksum, parses it, and checks the counts against its entry.
absl::Status ParseSection(absl::string_view bytes, const PartHeader& header, const PartEntry& entry,
                          SectionVisitor* visitor);

}  // namespace shoal

#endif  // SHOAL_SERVER_CHECKPOINT_PART_FORMAT_H_
