#include "server/store/key_index.h"

#include <algorithm>
#include <utility>

#include "server/store/page_heap.h"

namespace shoal {
namespace {

// Moves before a key counts as homeless, which costs some spare cells. In 18 million insertions into tables that grew
// to 60,000 keys the longest chain of moves was 184.
constexpr int kMaxMoves = 500;

}  // namespace

KeyIndex::~KeyIndex() { heap_->Free(table_, bytes()); }

uint64_t KeyIndex::LinesFor(uint64_t lines, uint64_t keys) {
  // At 5/6 one hit in seven is in its second line.
  while (keys * 6 > lines * kLineCells * 5) lines += std::max<uint64_t>(1, lines / 5);
  return lines;
}

uint64_t KeyIndex::BytesAfter(uint64_t more) const {
  return (LinesFor(lines_, size_ + more) * kLineCells + spare_) * sizeof(Cell);
}

uint64_t KeyIndex::FindBehindEmpty(uint64_t line, uint64_t key) const {
  for (uint64_t cell = line; cell < line + kLineCells; ++cell) {
    if (table_[cell].key == key && used(cell)) return cell;
  }
  return kNone;
}

uint64_t KeyIndex::FindSpare(uint64_t key) const {
  for (uint64_t cell = lines_ * kLineCells; cell < cells(); ++cell) {
    if (table_[cell].key == key && used(cell)) return cell;
  }
  return kNone;
}

bool KeyIndex::PlaceInLine(uint64_t line, const Cell& cell) {
  for (uint64_t at = line; at < line + kLineCells; ++at) {
    if (used(at)) continue;
    table_[at] = cell;
    return true;
  }
  return false;
}

bool KeyIndex::Place(Cell* cell) {
  for (int moves = 0; moves < kMaxMoves; ++moves) {
    const uint64_t hash = HashOf(cell->key);
    const uint64_t first = FirstLine(hash), second = SecondLine(hash);
    if (PlaceInLine(first, *cell) || PlaceInLine(second, *cell)) return true;
    // The victim leaves its second line for its first, or the other way round, wherever there is room. Taking turns
    // among the cells of both lines keeps two keys from throwing each other out for ever.
    const uint32_t victim = victim_++ % (2 * kLineCells);
    std::swap(*cell, table_[victim < kLineCells ? first + victim : second + victim - kLineCells]);
  }
  for (uint64_t at = lines_ * kLineCells; at < cells(); ++at) {
    if (used(at)) continue;
    table_[at] = *cell;
    return true;
  }
  return false;
}

void KeyIndex::Reserve(uint64_t more) {
  const uint64_t lines = LinesFor(lines_, size_ + more);
  if (lines != lines_) Rebuild(lines, spare_);
}

void KeyIndex::Insert(uint64_t key, uint32_t value, uint32_t tag) {
  Reserve(1);
  Cell cell{key, value, tag};
  while (!Place(&cell)) {
    Rebuild(lines_, std::max(kLineCells, 2 * spare_));
  }
  ++size_;
}

void KeyIndex::Rebuild(uint64_t lines, uint64_t spare) {
  Cell* const old = table_;
  const uint64_t old_cells = cells(), old_bytes = bytes();
  for (bool all = false; !all; spare = std::max(kLineCells, 2 * spare)) {
    if (table_ != old) heap_->Free(table_, bytes());
    lines_ = lines;
    spare_ = spare;
    table_ = static_cast<Cell*>(heap_->Allocate(bytes()));
    hint_table_.store(table_, std::memory_order_relaxed);
    hint_lines_.store(lines, std::memory_order_relaxed);
    std::fill_n(table_, cells(), Cell{0, 0, kEmpty});
    all = true;
    for (uint64_t at = 0; all && at < old_cells; ++at) {
      Cell cell = old[at];
      if (cell.tag != kEmpty) all = Place(&cell);
    }
  }
  heap_->Free(old, old_bytes);
}

void KeyIndex::Erase(uint64_t cell) {
  table_[cell].tag = kEmpty;
  --size_;
}

}  // namespace shoal
