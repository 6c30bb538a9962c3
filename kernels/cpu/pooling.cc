#include "kernels/cpu/pooling.h"

#include <type_traits>

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

template <size_t kDim>
using Fixed = std::integral_constant<size_t, kDim>;

// Calls use(dim) with the common widths as constants: rows are so short that a loop of unknown length costs more than
// what it does. Element by element the arithmetic is the same.
template <typename Use>
void WithDim(size_t dim, Use use) {
  switch (dim) {
    case 1:
      return use(Fixed<1>());
    case 4:
      return use(Fixed<4>());
    case 8:
      return use(Fixed<8>());
    case 16:
      return use(Fixed<16>());
    default:
      return use(dim);
  }
}

// to[d] += factor * from[d]. `Dim` is size_t or Fixed.
template <typename Dim>
void AddScaled(const float* __restrict from, float factor, Dim dim, float* __restrict to) {
  for (size_t d = 0; d < dim; ++d) to[d] += factor * from[d];
}

}  // namespace

void PoolBags(const Bags& bags, const float* table, size_t dim, size_t stride, float* out) {
  WithDim(dim, [&](auto width) {
    ForEachOccurrence(bags, table, width, [=](size_t bag, size_t row, float factor) {
      AddScaled(table + row * width, factor, width, out + bag * stride);
    });
  });
}

void PoolBagsGradient(const Bags& bags, const float* gradient, size_t dim, size_t stride, float* table_gradient) {
  WithDim(dim, [&](auto width) {
    ForEachOccurrence(bags, table_gradient, width, [=](size_t bag, size_t row, float factor) {
      AddScaled(gradient + bag * stride, factor, width, table_gradient + row * width);
    });
  });
}

void FactorizeBags(const Bags& bags, const float* table, size_t dim, float* sums, float* squares) {
  WithDim(dim, [&](auto width) {
    ForEachOccurrence(bags, table, width, [=](size_t bag, size_t row, float factor) {
      const float* __restrict from = table + row * width;
      float* __restrict sum = sums + bag * width;
      float* __restrict square = squares + bag * width;
      for (size_t d = 0; d < width; ++d) {
        const float value = factor * from[d];
        sum[d] += value;
        square[d] += value * value;
      }
    });
  });
}

void FactorizeBagsGradient(const Bags& bags, const float* table, size_t dim, const float* sums, const float* dy,
                           float* table_gradient) {
  WithDim(dim, [&](auto width) {
    ForEachOccurrence(bags, table_gradient, width, [=](size_t bag, size_t row, float factor) {
      const float* __restrict from = table + row * width;
      const float* __restrict sum = sums + bag * width;
      float* __restrict to = table_gradient + row * width;
      const float slope = dy[bag] * factor;
      for (size_t d = 0; d < width; ++d) to[d] += slope * (sum[d] - factor * from[d]);
    });
  });
}

}  // namespace shoal::cpu
