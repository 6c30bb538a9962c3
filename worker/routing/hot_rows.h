// Rows that a lane keeps between batches, each with the age that decides how long it may serve (docs/semantics.md
// section 3).
#ifndef SHOAL_WORKER_ROUTING_HOT_ROWS_H_
#define SHOAL_WORKER_ROUTING_HOT_ROWS_H_

#include <cstdint>
#include <vector>

namespace shoal {

// A bounded table of rows by key. A row that was fetched when the slowest live lane had finished m batches serves batch
// c only while c <= m + staleness. What does not fit replaces the oldest of the few rows that share its place, so
// memory never grows. Owned by one lane; not thread-safe.
class HotRowTable {
 public:
  // floats_of_group: values of a key, over all tables of its group. `bytes` are shared out among the groups by the size
  // of their rows; a group that gets no room keeps nothing.
  HotRowTable(const std::vector<uint32_t>& floats_of_group, uint64_t bytes, uint64_t staleness);

  // The key's values, table by table, or nullptr. Valid until the next Put.
  const float* Find(uint32_t group, uint64_t key, uint64_t batch) const;
  // Room for the values of a key that were fetched at slowest clock m, which the caller writes; nullptr when there is
  // none for the group.
  float* Put(uint32_t group, uint64_t key, uint64_t slowest_clock);
  void Clear();
  // Clears when the run or the map is another than before: rows of restored partitions go back in time.
  void UseMap(uint64_t run, uint64_t map_version);

  uint64_t bytes() const;

 private:
  static constexpr uint64_t kWays = 4;  // places that a key may take

  struct Entry {
    uint64_t key = 0;
    uint64_t fresh_until = 0;  // last batch that it may serve
    bool used = false;
  };
  struct Group {
    uint64_t floats = 0;
    uint64_t sets = 0;
    std::vector<Entry> entries;  // kWays for each set
    std::vector<float> values;
  };

  const uint64_t staleness_;
  uint64_t run_ = 0;
  uint64_t map_version_ = 0;
  std::vector<Group> groups_;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_ROUTING_HOT_ROWS_H_
