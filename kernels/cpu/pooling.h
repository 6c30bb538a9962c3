// Embedding bags: the pooled rows of slots, and the segment sums that are their gradients.
#ifndef SHOAL_KERNELS_CPU_POOLING_H_
#define SHOAL_KERNELS_CPU_POOLING_H_

#include <cstddef>
#include <cstdint>

namespace shoal::cpu {

// For bag r the rows index[offsets[r]] .. index[offsets[r + 1] - 1] of a table, each times its weight. Borrowed.
struct Bags {
  size_t count = 0;
  const uint32_t* offsets = nullptr;  // count + 1
  const uint32_t* index = nullptr;    // row of the table, by occurrence
  const float* weights = nullptr;     // by occurrence; nullptr: all 1
  bool mean = false;                  // the sum is divided by the number of keys of the bag
  bool single = false;                // each bag has one key, index[r] (AreSingle), which is faster; no weights
};

// Whether each of `count` bags has exactly one key.
bool AreSingle(const uint32_t* offsets, size_t count);

// out[r * stride + d] += pooled value d of bag r. An empty bag adds nothing.
void PoolBags(const Bags& bags, const float* table, size_t dim, size_t stride, float* out);
// table_gradient[index] += weight * gradient[r * stride + d], in the order of occurrences.
void PoolBagsGradient(const Bags& bags, const float* gradient, size_t dim, size_t stride, float* table_gradient);

// Example r has the keys of bag r of all `slots`, which have equally many bags and no mean. Its rows (times their
// weights) are summed in sums[r * dim + d], slot after slot, and their squares in squares[r * dim + d].
void FactorizeBags(const Bags* slots, size_t slot_count, const float* table, size_t dim, float* sums, float* squares);
// The gradient of y[r] = 1/2 sum_d (sums_d^2 - squares_d): table_gradient[index] += dy[r] * weight * (sums_d - weight *
// row_d), example after example and slot after slot.
void FactorizeBagsGradient(const Bags* slots, size_t slot_count, const float* table, size_t dim, const float* sums,
                           const float* dy, float* table_gradient);

}  // namespace shoal::cpu

#endif  // SHOAL_KERNELS_CPU_POOLING_H_
