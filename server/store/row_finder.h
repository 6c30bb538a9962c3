// Look-ups of many keys whose cache misses overlap; included by sparse_table*.cc only.
#ifndef SHOAL_SERVER_STORE_ROW_FINDER_H_
#define SHOAL_SERVER_STORE_ROW_FINDER_H_

#include <algorithm>
#include <cstdint>

#include "server/store/sparse_table.h"

namespace shoal {

// Goes through keys in order and hands out their rows, having asked for what comes next: first for a key's index line,
// a little later (the line has arrived) for its row or its second line, later still for the row that the second line
// names. Rows may be created meanwhile; keys that are not found then must be looked up again. Not thread-safe.
class SparseTable::RowFinder {
 public:
  // Distances in keys: together more cache misses than a core can have outstanding, in an order in which each arrives
  // before it is needed. Best of the powers of two on the machines tried.
  static constexpr uint64_t kAsked = 32;
  static constexpr uint64_t kLooked = 16;
  static constexpr uint64_t kFound = 8;

  // `floats` of each row will be touched. hashes: by key, after SparseTable::Prefetch of them; or empty.
  RowFinder(const SparseTable& table, absl::Span<const uint64_t> keys, absl::Span<const uint64_t> hashes,
            uint64_t floats)
      : table_(table),
        index_(table.index_),
        keys_(keys),
        hashes_(hashes.empty() ? nullptr : hashes.data()),
        last_float_(floats - 1),
        empty_(index_.cells() == 0) {
    if (empty_) return;
    // Who knows no hashes has not asked for anything either.
    for (uint64_t i = 0; hashes_ == nullptr && i < std::min(keys.size(), kAsked); ++i) {
      index_.PrefetchFirst(HashAt(i));
    }
    for (uint64_t i = 0; i < std::min(keys.size(), kLooked); ++i) Look(i);
    for (uint64_t i = 0; i < std::min(keys.size(), kFound); ++i) Find(i);
  }

  // The row of the next key; null when there is none.
  float* Next() {
    if (empty_) return nullptr;
    const uint64_t i = next_++;
    float* const row = rows_[i % kLooked];  // before a later key takes its place
    const uint64_t left = keys_.size() - i;
    if (left > kFound) {
      if (left > kLooked) {
        if (left > kAsked) index_.PrefetchFirst(HashAt(i + kAsked));
        Look(i + kLooked);
      }
      Find(i + kFound);
    }
    return row;
  }

 private:
  uint64_t HashAt(uint64_t i) const { return hashes_ != nullptr ? hashes_[i] : index_.HashOf(keys_[i]); }

  void Look(uint64_t i) {
    const uint64_t hash = HashAt(i);
    const uint64_t cell = index_.FindInLine(index_.FirstLine(hash), keys_[i]);
    pending_[i % kLooked] = cell == KeyIndex::kNone;
    if (cell != KeyIndex::kNone) return Take(i, cell);
    index_.Prefetch(index_.SecondLine(hash));
  }

  void Find(uint64_t i) {
    if (pending_[i % kLooked]) Take(i, index_.FindSecond(HashAt(i), keys_[i]));
  }

  void Take(uint64_t i, uint64_t cell) {
    float* row = nullptr;
    if (cell != KeyIndex::kNone && index_.at(cell).is_row()) {
      row = table_.RowAt(index_.at(cell).value);
      // Rows start anywhere in a line, so the last one is asked for by its end.
      __builtin_prefetch(row);
      for (uint64_t f = kLineFloats; f < last_float_; f += kLineFloats) __builtin_prefetch(row + f);
      __builtin_prefetch(row + last_float_);
    }
    rows_[i % kLooked] = row;
  }

  static constexpr uint64_t kLineFloats = 16;

  const SparseTable& table_;
  const KeyIndex& index_;
  const absl::Span<const uint64_t> keys_;
  const uint64_t* const hashes_;
  const uint64_t last_float_;
  const bool empty_;  // there was nothing to look up in
  uint64_t next_ = 0;
  bool pending_[kLooked];  // of key i at i % kLooked: not in its first line
  float* rows_[kLooked];
};

}  // namespace shoal

#endif  // SHOAL_SERVER_STORE_ROW_FINDER_H_
