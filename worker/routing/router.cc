#include "worker/routing/router.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/hash.h"
#include "base/random.h"

namespace shoal {
namespace {

// Fibonacci hashing: the high bits of the product depend on all bits of the key.
size_t Home(uint64_t key, int shift) { return (key * 0x9e3779b97f4a7c15ULL) >> shift; }

}  // namespace

Router::Router(std::vector<uint32_t> slots, uint32_t partitions) : slots_(std::move(slots)), partitions_(partitions) {
  SHOAL_CHECK(partitions_ > 0);
  for (uint32_t slot : slots_) SHOAL_CHECK(slot <= std::numeric_limits<uint16_t>::max());
}

void Router::Route(const Batch& batch, KeyGroup* group) {
  size_t occurrences = 0;
  for (uint32_t slot : slots_) occurrences += batch.slots[slot].keys.size();
  SHOAL_CHECK(occurrences < std::numeric_limits<uint32_t>::max());
  unique_.clear();
  slot_end_.clear();
  PrepareTable();
  group->inverse.resize(batch.slots.size());
  for (std::vector<uint32_t>& inverse : group->inverse) inverse.clear();
  for (uint32_t slot : slots_) {
    const std::vector<uint64_t>& keys = batch.slots[slot].keys;
    std::vector<uint32_t>& inverse = group->inverse[slot];
    inverse.resize(keys.size());
    FindIds(keys, inverse.data());
    slot_end_.push_back(static_cast<uint32_t>(unique_.size()));
  }
  SortByPartition(group);
  for (uint32_t slot : slots_) {
    for (uint32_t& id : group->inverse[slot]) id = position_of_[id];
  }
}

void Router::PrepareTable() {
  // An old stamp must never look current: start afresh when the counter comes round.
  if (++stamp_ != 0) return;
  std::fill(cells_.begin(), cells_.end(), Cell{0, 0, 0});
  stamp_ = 1;
}

void Router::Grow() {
  const size_t size = std::max<size_t>(256, 4 * cells_.size());
  cells_.assign(size, Cell{0, 0, 0});
  shift_ = 64 - __builtin_ctzll(size);
  stamp_ = 1;
  for (uint32_t id = 0; id < unique_.size(); ++id) {
    size_t i = Home(unique_[id], shift_);
    while (cells_[i].stamp == stamp_) i = (i + 1) & (size - 1);
    cells_[i] = {unique_[id], id, stamp_};
  }
}

void Router::FindIds(const std::vector<uint64_t>& keys, uint32_t* ids) {
  // Cells of a few keys are on their way while earlier ones are compared.
  constexpr size_t kAhead = 16;
  size_t homes[kAhead];
  for (size_t begin = 0; begin < keys.size(); begin += kAhead) {
    const size_t count = std::min(kAhead, keys.size() - begin);
    if (2 * (unique_.size() + count) > cells_.size()) Grow();
    // Copies that the stores below cannot change, as far as the compiler knows, so that they stay in registers.
    Cell* const cells = cells_.data();
    const uint64_t* const key = keys.data() + begin;
    const size_t mask = cells_.size() - 1;
    const uint32_t stamp = stamp_;
    const int shift = shift_;
    for (size_t i = 0; i < count; ++i) {
      homes[i] = Home(key[i], shift);
      __builtin_prefetch(cells + homes[i]);
    }
    for (size_t i = 0; i < count; ++i) {
      size_t at = homes[i];
      // Most keys of a batch were seen before, and most of those are at home.
      while (cells[at].key != key[i] || cells[at].stamp != stamp) {
        if (cells[at].stamp != stamp) {
          cells[at] = {key[i], static_cast<uint32_t>(unique_.size()), stamp};
          unique_.push_back(key[i]);
          break;
        }
        at = (at + 1) & mask;
      }
      ids[begin + i] = cells[at].id;
    }
  }
}

// Counting sort: stable, so that keys stay in order of first sight inside a partition.
void Router::SortByPartition(KeyGroup* group) {
  const size_t count = unique_.size();
  partition_of_.resize(count);
  position_of_.resize(count);
  group->keys.resize(count);
  group->slots.resize(count);
  std::vector<uint32_t>& begin = group->partition_begin;
  begin.assign(size_t{partitions_} + 1, 0);
  for (size_t id = 0; id < count; ++id) {
    partition_of_[id] = PartitionOfKey(unique_[id], partitions_);
    ++begin[partition_of_[id] + 1];
  }
  for (uint32_t p = 0; p < partitions_; ++p) begin[p + 1] += begin[p];
  // begin[p] runs to the end of p while keys are placed, which is the begin of p + 1: shift back afterwards.
  size_t id = 0;
  for (size_t s = 0; s < slots_.size(); ++s) {
    for (; id < slot_end_[s]; ++id) {
      const uint32_t position = begin[partition_of_[id]]++;
      position_of_[id] = position;
      group->keys[position] = unique_[id];
      group->slots[position] = static_cast<uint16_t>(slots_[s]);
    }
  }
  for (uint32_t p = partitions_; p > 0; --p) begin[p] = begin[p - 1];
  begin[0] = 0;
}

}  // namespace shoal
