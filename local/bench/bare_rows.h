// The least that a store must do: the two memory accesses of a look-up (index entry, then row) and the arithmetic of
// row-wise Adagrad, in bare arrays. The ceiling that the store is compared with.
#ifndef SHOAL_LOCAL_BENCH_BARE_ROWS_H_
#define SHOAL_LOCAL_BENCH_BARE_ROWS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace shoal {

// Entries of 16 bytes at the store's load, rows of weights and one accumulator side by side at the store's stride, both
// on huge pages where the system has them. Keys of one partition lie together, as in the store. Not thread-safe.
class BareRows {
 public:
  BareRows(uint64_t rows, uint32_t dim, uint32_t partitions);
  ~BareRows();
  BareRows(const BareRows&) = delete;
  BareRows& operator=(const BareRows&) = delete;

  // Entries that keys (grouped by partition) would be found at: the hash of a store is not part of the bare loop.
  std::vector<uint64_t> PlacesOf(absl::Span<const uint64_t> keys) const;

  // Copies rows, |places| x dim.
  void Pull(absl::Span<const uint64_t> places, float* out) const;
  // One step of row-wise Adagrad with gradients sums / divisor.
  void Push(absl::Span<const uint64_t> places, const float* sums, float divisor);

 private:
  struct Entry {
    uint64_t key;
    uint32_t row;
    uint32_t tag;
  };
  const float* RowOf(const Entry& entry) const { return values_ + entry.row * stride_; }

  const uint64_t rows_;
  const uint64_t dim_;
  const uint64_t stride_;
  const uint32_t partitions_;
  uint64_t entries_per_partition_;
  size_t entry_bytes_, value_bytes_;
  Entry* entries_;
  float* values_;
};

}  // namespace shoal

#endif  // SHOAL_LOCAL_BENCH_BARE_ROWS_H_
