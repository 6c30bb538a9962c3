// The index of a sparse table: key -> row number, or key -> count for keys that have no row yet.
#ifndef SHOAL_SERVER_STORE_KEY_INDEX_H_
#define SHOAL_SERVER_STORE_KEY_INDEX_H_

#ifdef __SSE4_1__
#include <smmintrin.h>
#endif

#include <atomic>
#include <cstdint>

#include "server/store/key_hash.h"
#include "server/store/page_heap.h"

namespace shoal {

// Cuckoo hashing (Pagh, Rodler 2004) with buckets of one cache line: a key is in the first of its two lines, or when
// that was full in the second, so that a look-up touches at most two lines and both are known beforehand. Any uint64 is
// a valid key; keys that fill both of their lines (only an adversary has them) go to spare cells at the end, which are
// searched one by one. 16 bytes a cell at a load of .69 to .83 is 19 to 23 bytes per key. Not thread-safe.
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

  // `partitions` fixes the hash (PlaceOfKey). `heap` must outlive the index.
  KeyIndex(uint32_t partitions, PageHeap* heap) : partitions_(partitions), heap_(heap) {}
  ~KeyIndex();
  KeyIndex(const KeyIndex&) = delete;
  KeyIndex& operator=(const KeyIndex&) = delete;

  uint64_t size() const { return size_; }
  uint64_t cells() const { return lines_ * kLineCells + spare_; }
  uint64_t bytes() const { return cells() * sizeof(Cell); }
  // Bytes after `more` insertions.
  uint64_t BytesAfter(uint64_t more) const;

  // What places a key within its partition (KeyPlace::within).
  uint64_t HashOf(uint64_t key) const { return PlaceOfKey(key, partitions_).within; }
  // The first cell of a key's two lines. REQUIRES: cells() > 0.
  uint64_t FirstLine(uint64_t hash) const {
    return kLineCells * static_cast<uint64_t>((static_cast<unsigned __int128>(hash) * lines_) >> 64);
  }
  uint64_t SecondLine(uint64_t hash) const { return FirstLine(hash * kSecondHash); }
  // The lines as an object of its own, which a loop over many keys keeps in registers.
  struct Lines {
    const Cell* cells;
    uint64_t count;

    const Cell* First(uint64_t hash) const {
      return cells + kLineCells * static_cast<uint64_t>((static_cast<unsigned __int128>(hash) * count) >> 64);
    }
    const Cell* Second(uint64_t hash) const { return First(hash * kSecondHash); }
    // The cell of the key if it has a row and is in this line, or null: Find says what it is then.
    static const Cell* RowIn(const Cell* line, uint64_t key) {
      const unsigned found = EqualKeys(line, key);
      const Cell* const cell = line + __builtin_ctz(found | 1u << (kLineCells - 1));
      return found != 0 && cell->is_row() ? cell : nullptr;  // an empty cell is no row
    }
  };
  Lines lines() const { return {table_, lines_}; }
  // Where they were a moment ago: only to be asked for, which does no harm where there is no memory any more.
  // Thread-safe, unlike the rest.
  Lines HintedLines() const {
    return {hint_table_.load(std::memory_order_relaxed), hint_lines_.load(std::memory_order_relaxed)};
  }
  // The key's cell in the line that starts at `line`, or kNone: it may still be elsewhere.
  uint64_t FindInLine(uint64_t line, uint64_t key) const {
    // Without a branch on each cell, which no predictor gets right.
    const unsigned found = EqualKeys(&table_[line], key);
    if (found == 0) return kNone;
    const uint64_t cell = line + static_cast<unsigned>(__builtin_ctz(found));
    return used(cell) ? cell : FindBehindEmpty(line, key);
  }
  // Goes on when FindInLine of the first line has found nothing: the key's cell or kNone.
  uint64_t FindSecond(uint64_t hash, uint64_t key) const {
    const uint64_t cell = FindInLine(SecondLine(hash), key);
    return cell != kNone || spare_ == 0 ? cell : FindSpare(key);
  }
  // The key's cell or kNone.
  uint64_t Find(uint64_t key) const {
    if (lines_ == 0) return kNone;
    const uint64_t hash = HashOf(key);
    const uint64_t cell = FindInLine(FirstLine(hash), key);
    return cell != kNone ? cell : FindSecond(hash, key);
  }

  Cell& at(uint64_t cell) { return table_[cell]; }
  const Cell& at(uint64_t cell) const { return table_[cell]; }
  bool used(uint64_t cell) const { return table_[cell].tag != kEmpty; }

  // Grows as far as `more` insertions would.
  void Reserve(uint64_t more);
  // Adds a key; cells may move. REQUIRES: the key is absent.
  void Insert(uint64_t key, uint32_t value, uint32_t tag);
  // Removes the key in `cell`; no other cell moves.
  void Erase(uint64_t cell);

 private:
  static constexpr uint64_t kLineCells = 4;
  // Odd, so that all bits of the product's upper half depend on all lower ones of the first hash (Fibonacci hashing).
  static constexpr uint64_t kSecondHash = 0x9e3779b97f4a7c15ULL;

  static uint64_t LinesFor(uint64_t lines, uint64_t keys);
  // Bit i: cell i of the line has the key; empty cells keep the key that they had last.
  static unsigned EqualKeys(const Cell* line, uint64_t key);
  // For a key that an empty cell of the line also has.
  uint64_t FindBehindEmpty(uint64_t line, uint64_t key) const;
  uint64_t FindSpare(uint64_t key) const;
  bool PlaceInLine(uint64_t line, const Cell& cell);
  // Moves others to their second lines as need be; false leaves in *cell a key that has no place.
  bool Place(Cell* cell);
  // Moves everything to a table of this size.
  void Rebuild(uint64_t lines, uint64_t spare);

  const uint32_t partitions_;
  PageHeap* const heap_;
  uint64_t lines_ = 0;
  uint64_t spare_ = 0;  // cells behind the lines
  uint64_t size_ = 0;
  std::atomic<uint64_t> hint_lines_{0};
  std::atomic<const Cell*> hint_table_{nullptr};
  uint32_t victim_ = 0;  // the cell of a full line that makes room next
  Cell* table_ = nullptr;
};

inline unsigned KeyIndex::EqualKeys(const Cell* line, uint64_t key) {
#ifdef __SSE4_1__
  const auto load_keys = [](const Cell* cells) {
    const __m128d low = _mm_load_sd(reinterpret_cast<const double*>(&cells[0].key));
    return _mm_castpd_si128(_mm_loadh_pd(low, reinterpret_cast<const double*>(&cells[1].key)));
  };
  const __m128i wanted = _mm_set1_epi64x(static_cast<int64_t>(key));
  const __m128i low = _mm_cmpeq_epi64(load_keys(line), wanted);
  const __m128i high = _mm_cmpeq_epi64(load_keys(line + 2), wanted);
  return static_cast<unsigned>(_mm_movemask_ps(_mm_castsi128_ps(_mm_packs_epi32(low, high))));
#else
  unsigned found = 0;
  for (unsigned i = 0; i < kLineCells; ++i) found |= static_cast<unsigned>(line[i].key == key) << i;
  return found;
#endif
}

}  // namespace shoal

#endif  // SHOAL_SERVER_STORE_KEY_INDEX_H_
