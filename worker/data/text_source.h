// Cuts text files into lines, or into csv records whose quoted fields may hold line ends.
#ifndef SHOAL_WORKER_DATA_TEXT_SOURCE_H_
#define SHOAL_WORKER_DATA_TEXT_SOURCE_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "worker/data/content.h"
#include "worker/data/record.h"

namespace shoal {

// What decides where a text record ends and which lines are none.
struct TextFraming {
  char quote = '\0';            // csv: a field that starts with it may hold line ends; '\0': none
  char delimiter = '\0';        // csv: ends a field, so that the next may start with a quote
  bool trim = false;            // csv: blanks may stand before a quote
  bool tabs_are_blank = false;  // a line of tabs only is blank
  char comment = '\0';          // a line that starts with it (after blanks) is no record; '\0': none
};

// Lines end in \n or \r\n; the last one may lack it. Blank lines and comment lines are not records. Reads ahead in
// chunks of at most 256 KiB; memory is bounded by the longest record and kMaxRecordBytes. Not thread-safe.
class TextSource : public RecordSource {
 public:
  // REQUIRES: `begin` is the start of a record (or the end of the content).
  TextSource(std::shared_ptr<const FileContent> content, const TextFraming& framing, uint64_t begin, uint64_t end);

  absl::StatusOr<bool> Next(RawRecord* record) override;

  // Where the record after the last returned one (or after the blank lines skipped behind it) starts.
  uint64_t next_offset() const { return base_ + cursor_; }
  uint64_t blank_lines() const { return blank_lines_; }

 private:
  enum class State : uint8_t { kFieldStart, kUnquoted, kQuoted, kQuoteInQuoted };

  // Sets *stop to the index in buffer_ of the newline that ends the record; false: not in the buffer.
  bool FindEnd(size_t* stop);
  void Advance(size_t from, size_t to);
  absl::Status Refill();
  // Finds the end of the record at cursor_; sets *stop, *newline and record->overlong.
  absl::Status Delimit(RawRecord* record, size_t* stop, bool* newline);
  bool IsBlank(absl::string_view line) const;

  const std::shared_ptr<const FileContent> content_;
  const TextFraming framing_;
  const uint64_t end_;

  std::vector<char> buffer_;
  uint64_t base_;      // offset in the file of buffer_[0]
  size_t filled_ = 0;  // bytes of buffer_ in use
  size_t cursor_ = 0;  // start of the current record in buffer_
  size_t scan_ = 0;    // how far the search for its end has come
  State state_ = State::kFieldStart;
  std::string prefix_;  // first bytes of an overlong record
  uint64_t blank_lines_ = 0;
};

// 3 when the content starts with a UTF-8 byte order mark, else 0.
absl::StatusOr<uint64_t> SkipByteOrderMark(const FileContent& content);

}  // namespace shoal

#endif  // SHOAL_WORKER_DATA_TEXT_SOURCE_H_
