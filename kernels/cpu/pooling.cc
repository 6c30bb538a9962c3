#include "kernels/cpu/pooling.h"

namespace shoal::cpu {
namespace {

// Calls visit(bag, table row, factor) for every occurrence in order. Rows are fetched ahead: a table of a batch is
// larger than the near caches, and 8 occurrences cover one memory latency.
template <typename Visit>
void ForEachOccurrence(const Bags& bags, const float* table, size_t dim, Visit visit) {
  constexpr uint32_t kAhead = 8;
  const uint32_t total = bags.count == 0 ? 0 : bags.offsets[bags.count];
  for (size_t r = 0; r < bags.count; ++r) {
    const uint32_t begin = bags.offsets[r], end = bags.offsets[r + 1];
    const float share = bags.mean && end > begin ? 1.0f / static_cast<float>(end - begin) : 1.0f;
    for (uint32_t i = begin; i < end; ++i) {
      if (i + kAhead < total) __builtin_prefetch(table + size_t{bags.index[i + kAhead]} * dim);
      visit(r, size_t{bags.index[i]}, bags.weights == nullptr ? share : share * bags.weights[i]);
    }
  }
}

}  // namespace

void PoolBags(const Bags& bags, const float* table, size_t dim, size_t stride, float* out) {
  ForEachOccurrence(bags, table, dim, [=](size_t bag, size_t row, float factor) {
    const float* from = table + row * dim;
    float* to = out + bag * stride;
    for (size_t d = 0; d < dim; ++d) to[d] += factor * from[d];
  });
}

void PoolBagsGradient(const Bags& bags, const float* gradient, size_t dim, size_t stride, float* table_gradient) {
  ForEachOccurrence(bags, table_gradient, dim, [=](size_t bag, size_t row, float factor) {
    const float* from = gradient + bag * stride;
    float* to = table_gradient + row * dim;
    for (size_t d = 0; d < dim; ++d) to[d] += factor * from[d];
  });
}

}  // namespace shoal::cpu
