// Look-ups of many keys whose cache misses overlap; included by sparse_table*.cc only.
#ifndef SHOAL_SERVER_STORE_ROW_FINDER_H_
#define SHOAL_SERVER_STORE_ROW_FINDER_H_

#include <algorithm>
#include <cstdint>

#include "server/store/sparse_table.h"

namespace shoal {

// Goes through keys in order and returns their rows, having asked for what comes next: first for a key's index line, a
// little later (the line has arrived) for its row or its second line, later still for the row that the second line
// names. Rows may be created meanwhile; keys that are not found then must be looked up again. Not thread-safe.
class SparseTable::RowFinder {
 public:
  // Distances in keys: together more cache misses than a core can have outstanding, in an order in which each arrives
  // before it is needed. Best of the powers of two on the machines tried.
  static constexpr uint64_t kAsked = 32;
  static constexpr uint64_t kLooked = 16;
  static constexpr uint64_t kFound = 8;

  // `floats` of each row will be touched.
  RowFinder(const SparseTable& table, absl::Span<const uint64_t> keys, uint64_t floats)
      : table_(table), index_(table.index_), keys_(keys), floats_(floats), empty_(index_.cells() == 0) {
    if (empty_) return;
    for (uint64_t i = 0; i < std::min(keys.size(), kAsked); ++i) Ask(i);
    for (uint64_t i = 0; i < std::min(keys.size(), kLooked); ++i) Look(i);
    for (uint64_t i = 0; i < std::min(keys.size(), kFound); ++i) Find(i);
  }

  // The row of the next key; null when there is none.
  float* Next() {
    if (empty_) return nullptr;
    const uint64_t i = next_++;
    float* const row = rows_[i % kLooked];  // before the key after next takes its place
    if (i + kAsked < keys_.size()) Ask(i + kAsked);
    if (i + kLooked < keys_.size()) Look(i + kLooked);
    if (i + kFound < keys_.size()) Find(i + kFound);
    return row;
  }

 private:
  void Ask(uint64_t i) { index_.PrefetchHome(keys_[i]); }

  void Look(uint64_t i) {
    const KeyIndex::Home home = index_.HomeOf(keys_[i]);
    const uint64_t cell = index_.FindInLine(home.cell, keys_[i]);
    pending_[i % kLooked] = cell == KeyIndex::kNone;
    if (cell != KeyIndex::kNone) return Take(i, cell);
    index_.Prefetch(index_.SecondLine(home));
  }

  void Find(uint64_t i) {
    if (pending_[i % kLooked]) Take(i, index_.FindSecond(index_.HomeOf(keys_[i]), keys_[i]));
  }

  void Take(uint64_t i, uint64_t cell) {
    float* row = nullptr;
    if (cell != KeyIndex::kNone && index_.at(cell).is_row()) {
      row = table_.RowAt(index_.at(cell).value);
      // Rows start anywhere in a line, so the last one is asked for by its end.
      for (uint64_t f = 0; f < floats_; f += kLineFloats) __builtin_prefetch(row + f);
      __builtin_prefetch(row + floats_ - 1);
    }
    rows_[i % kLooked] = row;
  }

  static constexpr uint64_t kLineFloats = 16;

  const SparseTable& table_;
  const KeyIndex& index_;
  const absl::Span<const uint64_t> keys_;
  const uint64_t floats_;
  const bool empty_;  // there was nothing to look up in
  uint64_t next_ = 0;
  bool pending_[kLooked];  // of key i at i % kLooked: not in its first line
  float* rows_[kLooked];
};

}  // namespace shoal

#endif  // SHOAL_SERVER_STORE_ROW_FINDER_H_
