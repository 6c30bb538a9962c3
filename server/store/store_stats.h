// Counters that the partitions of one job share.
#ifndef SHOAL_SERVER_STORE_STORE_STATS_H_
#define SHOAL_SERVER_STORE_STORE_STATS_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

namespace shoal {

struct TableStats {
  std::atomic<int64_t> rows{0};
  std::atomic<int64_t> keys{0};            // rows plus counted keys
  std::atomic<int64_t> bytes{0};           // slabs and index
  std::atomic<uint64_t> guard_refused{0};  // rows
  std::atomic<uint64_t> not_admitted{0};
  std::atomic<uint64_t> memory_refused{0};
  std::atomic<uint64_t> expired{0};
};

// Thread-safe: relaxed atomics, each updated once per push and table.
struct StoreStats {
  explicit StoreStats(uint64_t tables) : table(tables) {}

  std::vector<TableStats> table;
  std::atomic<int64_t> dense_bytes{0};
  std::atomic<uint64_t> dense_refused{0};  // blocks refused by the guard
  std::atomic<int64_t> used_bytes{0};      // all of the above
  std::atomic<int64_t> reserved_bytes{0};  // promised to pushes that passed the limit but have not grown yet
};

}  // namespace shoal

#endif  // SHOAL_SERVER_STORE_STORE_STATS_H_
