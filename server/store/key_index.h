// The index of a sparse table: key -> row number, or key -> count for keys that have no row yet.
#ifndef SHOAL_SERVER_STORE_KEY_INDEX_H_
#define SHOAL_SERVER_STORE_KEY_INDEX_H_

#include <cstdint>
#include <memory>

namespace shoal {

// Open addressing with linear probing. Any uint64 is a valid key. Cells are ordered by hash (home = hash * cells /
// 2^64), so growing by a quarter copies in one ascending sweep and wastes little: 16 bytes a cell at a load of .64 to
// .8 is 20 to 25 bytes per key. Not thread-safe.
class KeyIndex {
 public:
  // Everything a hit needs, four to a cache line.
  struct Cell {
    uint64_t key;
    uint32_t value;  // row number, or for a counted key the quantum in which it was last touched
    uint32_t tag;    // kEmpty, or TagOf(slot, count) whose count is 0 for a row

    uint32_t slot() const { return tag >> 16; }
    uint32_t count() const { return tag & kCountMask; }
    bool is_row() const { return count() == 0; }
    void set_count(uint32_t count) { tag = (tag & ~kCountMask) | count; }
  };
  // A tag is the slot (16 bits), a reserved bit and the count (15 bits).
  static constexpr uint32_t kCountMask = 0x7fff;
  static constexpr uint32_t kMaxCount = kCountMask - 1;  // of a counted key
  static constexpr uint32_t kMaxSlots = 1 << 16;
  static constexpr uint32_t kEmpty = 0xffffffffu;  // no tag of a key: its count would be above kMaxCount
  static uint32_t TagOf(uint32_t slot, uint32_t count) { return slot << 16 | count; }
  static constexpr uint64_t kNone = ~uint64_t{0};  // no such cell

  // `partitions` fixes the hash (PlaceOfKey).
  explicit KeyIndex(uint32_t partitions) : partitions_(partitions) {}

  uint64_t size() const { return size_; }
  uint64_t cells() const { return cells_; }
  uint64_t bytes() const { return cells_ * sizeof(Cell); }
  // Bytes after `more` insertions.
  uint64_t BytesAfter(uint64_t more) const;

  // The cell where probing for the key starts. REQUIRES: cells() > 0.
  uint64_t Home(uint64_t key) const;
  void Prefetch(uint64_t home) const { __builtin_prefetch(&table_[home]); }
  // The key's cell or kNone. REQUIRES: home is Home(key).
  uint64_t FindFrom(uint64_t home, uint64_t key) const {
    for (uint64_t at = home;; at = at + 1 == cells_ ? 0 : at + 1) {
      const Cell& cell = table_[at];
      if (cell.tag == kEmpty) return kNone;
      if (cell.key == key) return at;
    }
  }
  uint64_t Find(uint64_t key) const { return cells_ == 0 ? kNone : FindFrom(Home(key), key); }

  Cell& at(uint64_t cell) { return table_[cell]; }
  const Cell& at(uint64_t cell) const { return table_[cell]; }
  bool used(uint64_t cell) const { return table_[cell].tag != kEmpty; }

  // Adds a key; cells may move. REQUIRES: the key is absent.
  void Insert(uint64_t key, uint32_t value, uint32_t tag);
  // Removes the key in `cell`; later keys of its run move up, so `cell` may hold another key afterwards.
  void Erase(uint64_t cell);

 private:
  static uint64_t CellsFor(uint64_t cells, uint64_t keys);
  void Place(uint64_t key, uint32_t value, uint32_t tag);
  void Grow(uint64_t cells);

  const uint32_t partitions_;
  uint64_t cells_ = 0;
  uint64_t size_ = 0;
  std::unique_ptr<Cell[]> table_;
};

}  // namespace shoal

#endif  // SHOAL_SERVER_STORE_KEY_INDEX_H_
