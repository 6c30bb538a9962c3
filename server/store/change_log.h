// What changed in one sparse table since a mark.
#ifndef SHOAL_SERVER_STORE_CHANGE_LOG_H_
#define SHOAL_SERVER_STORE_CHANGE_LOG_H_

#include <algorithm>
#include <cstdint>
#include <vector>

namespace shoal {

// Names one of several marks that a partition keeps at the same time.
using TrackerId = uint64_t;
inline constexpr TrackerId kNoTracker = 0;

// A bit per row number, and the changed keys themselves as long as they are few: a replica asks for a handful of rows
// after each push and must not pay for a walk over the index, a checkpoint asks for half of them and must not pay for a
// list. Keys that were erased are always listed, for nothing else remembers them. Not thread-safe.
class ChangeLog {
 public:
  // `since`: the partition's examples at the mark.
  explicit ChangeLog(uint64_t since) : since_(since) {}

  uint64_t since() const { return since_; }
  // Whether Keys() names all that changed; otherwise Changed() tells for rows, and counted keys by when they were
  // touched.
  bool listed() const { return listed_; }

  // A row was made or stepped. `cells` of the index bound the list.
  void Row(uint32_t row, uint64_t key, uint64_t cells) {
    if (Changed(row)) return;
    if (row / 64 >= bits_.size()) bits_.resize(row / 64 + 1 + bits_.size() / 2);
    bits_[row / 64] |= Bit(row);
    List(key, cells);
  }
  // A key that has no row was counted.
  void Counted(uint64_t key, uint64_t cells) { List(key, cells); }
  void ErasedRow(uint32_t row, uint64_t key) {
    // The row number may come back for another key, which must be seen as a change then.
    if (Changed(row)) bits_[row / 64] &= ~Bit(row);
    Erased(key);
  }
  void Erased(uint64_t key) {
    // A key can come and go many times between two marks.
    if (erased_.size() >= compact_at_) {
      Compact(&erased_);
      compact_at_ = std::max<uint64_t>(kCompactFrom, 2 * erased_.size());
    }
    erased_.push_back(key);
  }

  bool Changed(uint32_t row) const { return row / 64 < bits_.size() && (bits_[row / 64] & Bit(row)) != 0; }
  // Each key once. Erased ones may have come back since.
  std::vector<uint64_t> Keys() const { return Sorted(keys_); }
  std::vector<uint64_t> ErasedKeys() const { return Sorted(erased_); }

  // Moving the mark to now takes the bits of all rows (one by one where few are set), then the lists.
  void ClearRow(uint32_t row) { bits_[row / 64] &= ~Bit(row); }
  void ClearRows() { std::fill(bits_.begin(), bits_.end(), 0); }
  void ClearLists(uint64_t since) {
    since_ = since;
    keys_.clear();  // capacity stays: the next mark is likely to see as much
    erased_.clear();
    compact_at_ = kCompactFrom;
    listed_ = true;
  }

 private:
  static constexpr uint64_t kCompactFrom = 4096;  // below it, repeats cost less than looking for them
  static constexpr uint64_t kAlwaysListed = 256;
  // A random look-up costs about as much as walking over this many cells.
  static constexpr uint64_t kCellsPerKey = 8;

  static uint64_t Bit(uint32_t row) { return uint64_t{1} << (row % 64); }
  static void Compact(std::vector<uint64_t>* keys) {
    std::sort(keys->begin(), keys->end());
    keys->erase(std::unique(keys->begin(), keys->end()), keys->end());
  }
  static std::vector<uint64_t> Sorted(std::vector<uint64_t> keys) {
    Compact(&keys);
    return keys;
  }
  void List(uint64_t key, uint64_t cells) {
    if (!listed_) return;
    if (keys_.size() >= kAlwaysListed && keys_.size() >= cells / kCellsPerKey) {
      listed_ = false;
      keys_ = {};
      return;
    }
    keys_.push_back(key);
  }

  uint64_t since_;
  std::vector<uint64_t> bits_;
  std::vector<uint64_t> keys_;
  std::vector<uint64_t> erased_;
  uint64_t compact_at_ = kCompactFrom;
  bool listed_ = true;
};

}  // namespace shoal

#endif  // SHOAL_SERVER_STORE_CHANGE_LOG_H_
