#include "server/store/key_index.h"

#include <algorithm>
#include <utility>

#include "server/store/key_hash.h"

namespace shoal {

uint64_t KeyIndex::Home(uint64_t key) const {
  return static_cast<uint64_t>((static_cast<unsigned __int128>(PlaceOfKey(key, partitions_).within) * cells_) >> 64);
}

uint64_t KeyIndex::CellsFor(uint64_t cells, uint64_t keys) {
  // At .8 a hit costs 3 probes and a miss 13, mostly in one or two cache lines.
  while (keys * 5 > cells * 4) cells = std::max<uint64_t>(8, cells + cells / 4);
  return cells;
}

uint64_t KeyIndex::BytesAfter(uint64_t more) const { return CellsFor(cells_, size_ + more) * sizeof(Cell); }

void KeyIndex::Insert(uint64_t key, uint32_t value, uint32_t tag) {
  const uint64_t cells = CellsFor(cells_, size_ + 1);
  if (cells != cells_) Grow(cells);
  Place(key, value, tag);
  ++size_;
}

void KeyIndex::Place(uint64_t key, uint32_t value, uint32_t tag) {
  uint64_t at = Home(key);
  while (table_[at].tag != kEmpty) at = at + 1 == cells_ ? 0 : at + 1;
  table_[at] = {key, value, tag};
}

void KeyIndex::Grow(uint64_t cells) {
  std::unique_ptr<Cell[]> old = std::move(table_);
  const uint64_t old_cells = cells_;
  table_ = std::unique_ptr<Cell[]>(new Cell[cells]);
  cells_ = cells;
  for (uint64_t at = 0; at < cells; ++at) table_[at].tag = kEmpty;
  for (uint64_t at = 0; at < old_cells; ++at) {
    if (old[at].tag != kEmpty) Place(old[at].key, old[at].value, old[at].tag);
  }
}

void KeyIndex::Erase(uint64_t cell) {
  // Backward shift: a later key of the run moves into the hole unless that would put it before its home.
  uint64_t hole = cell;
  for (uint64_t at = hole + 1 == cells_ ? 0 : hole + 1; used(at); at = at + 1 == cells_ ? 0 : at + 1) {
    const uint64_t home = Home(table_[at].key);
    const uint64_t from_home = at >= home ? at - home : at + cells_ - home;
    const uint64_t from_hole = at >= hole ? at - hole : at + cells_ - hole;
    if (from_home < from_hole) continue;
    table_[hole] = table_[at];
    hole = at;
  }
  table_[hole].tag = kEmpty;
  --size_;
}

}  // namespace shoal
