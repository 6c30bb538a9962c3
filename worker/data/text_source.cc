#include "worker/data/text_source.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/status_macros.h"

namespace shoal {
namespace {

constexpr uint64_t kChunkBytes = 256 << 10;  // fits L2, so that parsing finds the bytes there
constexpr uint64_t kTailBytes = 4 << 10;     // read past a split's end at first: most records are shorter
constexpr size_t kPrefixBytes = 64;          // of an overlong record, for its message

}  // namespace

TextSource::TextSource(std::shared_ptr<const FileContent> content, const TextFraming& framing, uint64_t begin,
                       uint64_t end)
    : content_(std::move(content)), framing_(framing), end_(std::min(end, content_->size())), base_(begin) {}

void TextSource::Advance(size_t from, size_t to) {
  for (size_t i = from; i < to; ++i) {
    const char c = buffer_[i];
    switch (state_) {
      case State::kFieldStart:
        if (c == framing_.quote) {
          state_ = State::kQuoted;
        } else if (c != framing_.delimiter && !(framing_.trim && (c == ' ' || c == '\t'))) {
          state_ = State::kUnquoted;
        }
        break;
      case State::kUnquoted:
        if (c == framing_.delimiter) state_ = State::kFieldStart;
        break;
      case State::kQuoted:
        if (c == framing_.quote) state_ = State::kQuoteInQuoted;
        break;
      case State::kQuoteInQuoted:
        state_ = c == framing_.quote ? State::kQuoted : c == framing_.delimiter ? State::kFieldStart : State::kUnquoted;
        break;
    }
  }
}

bool TextSource::FindEnd(size_t* stop) {
  for (;;) {
    const char* from = buffer_.data() + scan_;
    const size_t left = filled_ - scan_;
    const void* found = left == 0 ? nullptr : std::memchr(from, '\n', left);
    *stop = found != nullptr ? static_cast<const char*>(found) - buffer_.data() : filled_;
    if (framing_.quote != '\0') {
      const bool plain = *stop == scan_ || std::memchr(from, framing_.quote, *stop - scan_) == nullptr;
      // Outside quotes, a stretch without quotes cannot change where the record ends.
      if (!plain || found == nullptr) Advance(scan_, *stop);
      if (found != nullptr && state_ == State::kQuoted) {
        scan_ = *stop + 1;
        continue;
      }
    }
    scan_ = *stop;
    return found != nullptr;
  }
}

absl::Status TextSource::Refill() {
  if (filled_ > cursor_) std::memmove(buffer_.data(), buffer_.data() + cursor_, filled_ - cursor_);
  base_ += cursor_;
  filled_ -= cursor_;
  scan_ -= cursor_;
  cursor_ = 0;
  const uint64_t at = base_ + filled_;
  uint64_t want = at < end_ ? std::min(end_ - at + kTailBytes, kChunkBytes) : kTailBytes;
  // A record that goes on gets ever larger reads, so that a long one is not copied over and over.
  want = std::min(std::max<uint64_t>(want, filled_), content_->size() - at);
  if (buffer_.size() < filled_ + want) buffer_.resize(filled_ + want);
  SHOAL_RETURN_IF_ERROR(content_->ReadAt(at, want, buffer_.data() + filled_));
  filled_ += want;
  return absl::OkStatus();
}

absl::Status TextSource::Delimit(RawRecord* record, size_t* stop, bool* newline) {
  record->overlong = false;
  scan_ = cursor_;
  state_ = State::kFieldStart;
  *newline = true;
  while (!FindEnd(stop)) {
    if (base_ + filled_ >= content_->size()) {
      *newline = false;
      break;
    }
    if (scan_ - cursor_ > kMaxRecordBytes || record->overlong) {
      if (!record->overlong) prefix_.assign(buffer_.data() + cursor_, kPrefixBytes);
      record->overlong = true;
      cursor_ = scan_;  // what was searched is not needed again
    }
    SHOAL_RETURN_IF_ERROR(Refill());
  }
  if (*stop - cursor_ > kMaxRecordBytes && !record->overlong) {
    prefix_.assign(buffer_.data() + cursor_, kPrefixBytes);
    record->overlong = true;
  }
  return absl::OkStatus();
}

bool TextSource::IsBlank(absl::string_view line) const {
  for (const char c : line) {
    if (c == ' ' || (c == '\t' && framing_.tabs_are_blank)) continue;
    return c == framing_.comment && framing_.comment != '\0';
  }
  return true;
}

absl::StatusOr<bool> TextSource::Next(RawRecord* record) {
  for (;;) {
    record->offset = base_ + cursor_;
    if (record->offset >= end_) return false;
    size_t stop;
    bool newline;
    SHOAL_RETURN_IF_ERROR(Delimit(record, &stop, &newline));
    absl::string_view text(buffer_.data() + cursor_, stop - cursor_);
    cursor_ = newline ? stop + 1 : stop;
    if (record->overlong) {
      record->text = prefix_;
      return true;
    }
    if (!text.empty() && text.back() == '\r') text.remove_suffix(1);
    if (IsBlank(text)) {
      ++blank_lines_;
      continue;
    }
    record->text = text;
    return true;
  }
}

absl::StatusOr<uint64_t> SkipByteOrderMark(const FileContent& content) {
  char mark[3];
  if (content.size() < sizeof(mark)) return 0;
  SHOAL_RETURN_IF_ERROR(content.ReadAt(0, sizeof(mark), mark));
  return std::memcmp(mark, "\xef\xbb\xbf", sizeof(mark)) == 0 ? 3 : 0;
}

}  // namespace shoal
