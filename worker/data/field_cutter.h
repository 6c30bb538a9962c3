// Cuts a record at its delimiters, many bytes at a time.
#ifndef SHOAL_WORKER_DATA_FIELD_CUTTER_H_
#define SHOAL_WORKER_DATA_FIELD_CUTTER_H_

#include <algorithm>
#include <cstdint>
#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "absl/strings/string_view.h"

namespace shoal {

// The fields of one record, in order. Finds the delimiters of 64 bytes at once: fields are short, so that looking at
// one byte after the other costs a mispredicted branch each. Not thread-safe.
class FieldCutter {
 public:
  // `record` must stay as it is while this is used.
  FieldCutter(absl::string_view record, char delimiter)
      : at_(record.data()), block_(at_), end_(at_ + record.size()), delimiter_(delimiter) {
    FindDelimiters();
  }

  // The next field; *last: no other follows. Must not be called again then.
  absl::string_view Next(bool* last) {
    while (found_ == 0) {
      if (end_ - block_ <= kBlock) {
        const absl::string_view field(at_, static_cast<size_t>(end_ - at_));
        at_ = end_;
        *last = true;
        return field;
      }
      block_ += kBlock;
      FindDelimiters();
    }
    const char* const stop = block_ + __builtin_ctzll(found_);
    found_ &= found_ - 1;
    const absl::string_view field(at_, static_cast<size_t>(stop - at_));
    at_ = stop + 1;
    *last = false;
    return field;
  }

  // What follows the last returned field and its delimiter.
  absl::string_view rest() const { return absl::string_view(at_, static_cast<size_t>(end_ - at_)); }

 private:
  static constexpr ptrdiff_t kBlock = 64;

  // Sets bit i of found_ when block_[i] is a delimiter.
  void FindDelimiters() {
    const ptrdiff_t left = end_ - block_;
    if (left >= kBlock) {
      found_ = Compare(block_);
      return;
    }
    // Never reads beyond the record.
    char tail[kBlock];
    std::copy_n(block_, left, tail);
    std::memset(tail + left, 0, static_cast<size_t>(kBlock - left));
    found_ = Compare(tail) & ((uint64_t{1} << left) - 1);
  }

  uint64_t Compare(const char* bytes) const {
    uint64_t found = 0;
#ifdef __SSE2__
    const __m128i wanted = _mm_set1_epi8(delimiter_);
    for (int i = 0; i < 4; ++i) {
      const __m128i part = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes + 16 * i));
      found |= static_cast<uint64_t>(_mm_movemask_epi8(_mm_cmpeq_epi8(part, wanted))) << (16 * i);
    }
#else
    for (int i = 0; i < kBlock; ++i) found |= static_cast<uint64_t>(bytes[i] == delimiter_) << i;
#endif
    return found;
  }

  const char* at_;     // start of the next field
  const char* block_;  // the 64 bytes that found_ is about
  const char* const end_;
  const char delimiter_;
  uint64_t found_ = 0;  // delimiters of the block that are not used up
};

}  // namespace shoal

#endif  // SHOAL_WORKER_DATA_FIELD_CUTTER_H_
