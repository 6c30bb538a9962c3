#include "worker/routing/hot_rows.h"

#include <limits>

#include "base/random.h"

namespace shoal {
namespace {

// The same for every machine, and unlike the hash that picks partitions.
uint64_t SetOf(uint64_t key, uint64_t sets) {
  return static_cast<uint64_t>((static_cast<unsigned __int128>(Mix64(key + 0x9e3779b97f4a7c15ULL)) * sets) >> 64);
}

}  // namespace

HotRowTable::HotRowTable(const std::vector<uint32_t>& floats_of_group, uint64_t bytes, uint64_t staleness)
    : staleness_(staleness), groups_(floats_of_group.size()) {
  uint64_t bytes_of_all = 0;
  for (uint32_t floats : floats_of_group) bytes_of_all += floats * sizeof(float) + sizeof(Entry);
  for (size_t g = 0; g < groups_.size(); ++g) {
    Group& group = groups_[g];
    group.floats = floats_of_group[g];
    // Each group keeps as many keys: one key of each costs bytes_of_all.
    group.sets = bytes / bytes_of_all / kWays;
    group.entries.resize(group.sets * kWays);
    group.values.resize(group.entries.size() * group.floats);
  }
}

const float* HotRowTable::Find(uint32_t group_index, uint64_t key, uint64_t batch) const {
  const Group& group = groups_[group_index];
  if (group.sets == 0) return nullptr;
  const uint64_t first = SetOf(key, group.sets) * kWays;
  for (uint64_t i = first; i < first + kWays; ++i) {
    const Entry& entry = group.entries[i];
    if (!entry.used || entry.key != key) continue;
    return batch <= entry.fresh_until ? group.values.data() + i * group.floats : nullptr;
  }
  return nullptr;
}

float* HotRowTable::Put(uint32_t group_index, uint64_t key, uint64_t slowest_clock) {
  Group& group = groups_[group_index];
  if (group.sets == 0) return nullptr;
  const uint64_t first = SetOf(key, group.sets) * kWays;
  uint64_t chosen = first;
  for (uint64_t i = first; i < first + kWays; ++i) {
    const Entry& entry = group.entries[i];
    if (entry.used && entry.key == key) {
      chosen = i;
      break;
    }
    const Entry& worst = group.entries[chosen];
    if (worst.used && (!entry.used || entry.fresh_until < worst.fresh_until)) chosen = i;
  }
  const uint64_t most = std::numeric_limits<uint64_t>::max();
  group.entries[chosen] = {key, slowest_clock > most - staleness_ ? most : slowest_clock + staleness_, true};
  return group.values.data() + chosen * group.floats;
}

void HotRowTable::Clear() {
  for (Group& group : groups_) group.entries.assign(group.entries.size(), Entry());
}

void HotRowTable::UseMap(uint64_t run, uint64_t map_version) {
  if (run == run_ && map_version == map_version_) return;
  run_ = run;
  map_version_ = map_version;
  Clear();
}

uint64_t HotRowTable::bytes() const {
  uint64_t bytes = 0;
  for (const Group& group : groups_) {
    bytes += group.entries.size() * sizeof(Entry) + group.values.size() * sizeof(float);
  }
  return bytes;
}

}  // namespace shoal
