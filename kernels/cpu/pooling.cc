#include "kernels/cpu/pooling.h"

#include <type_traits>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/pooling.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace shoal::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <size_t kDim>
using Fixed = std::integral_constant<size_t, kDim>;

// Calls at(d, i) for the values of a row, whole registers first, then one by one. `Dim` is size_t or Fixed: a width
// that is known saves more than the arithmetic of so short a row costs.
template <size_t kDim, typename At>
HWY_INLINE void ForRow(Fixed<kDim>, At at) {
  const hn::CappedTag<float, kDim> d;  // a power of two
  for (size_t i = 0; i < kDim; i += hn::Lanes(d)) at(d, i);
}

template <typename At>
HWY_INLINE void ForRow(size_t dim, At at) {
  const hn::ScalableTag<float> d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= dim; i += lanes) at(d, i);
  const hn::CappedTag<float, 1> one;
  for (; i < dim; ++i) at(one, i);
}

// Calls use(dim) with the common widths as constants.
template <typename Use>
HWY_INLINE void WithDim(size_t dim, Use use) {
  switch (dim) {
    case 1:
      return use(Fixed<1>());
    case 4:
      return use(Fixed<4>());
    case 8:
      return use(Fixed<8>());
    case 16:
      return use(Fixed<16>());
    case 32:
      return use(Fixed<32>());
    default:
      return use(dim);
  }
}

// Rows are fetched ahead: a table of a batch is larger than the near caches, and 8 occurrences cover one memory
// latency.
constexpr uint32_t kAhead = 8;

// Calls visit(bag, table row, factor) for every occurrence in order.
template <typename Visit>
HWY_INLINE void ForEachOccurrence(const Bags& bags, const float* table, size_t dim, Visit visit) {
  const uint32_t* const index = bags.index;
  if (bags.single) {
    const uint32_t total = static_cast<uint32_t>(bags.count);
    const uint32_t fetched = total > kAhead ? total - kAhead : 0;
    uint32_t i = 0;
    for (; i < fetched; ++i) {
      __builtin_prefetch(table + size_t{index[i + kAhead]} * dim);
      visit(i, size_t{index[i]}, 1.0f);
    }
    for (; i < total; ++i) visit(i, size_t{index[i]}, 1.0f);
    return;
  }
  const uint32_t total = bags.count == 0 ? 0 : bags.offsets[bags.count];
  for (size_t r = 0; r < bags.count; ++r) {
    const uint32_t begin = bags.offsets[r], end = bags.offsets[r + 1];
    const float share = bags.mean && end > begin ? 1.0f / static_cast<float>(end - begin) : 1.0f;
    for (uint32_t i = begin; i < end; ++i) {
      if (i + kAhead < total) __builtin_prefetch(table + size_t{index[i + kAhead]} * dim);
      visit(r, size_t{index[i]}, bags.weights == nullptr ? share : share * bags.weights[i]);
    }
  }
}

// to[d] += factor * from[d].
template <typename Dim>
HWY_INLINE void AddScaled(const float* HWY_RESTRICT from, float factor, Dim dim, float* HWY_RESTRICT to) {
  ForRow(dim, [=](auto d, size_t i) HWY_ATTR {
    const auto scaled = hn::Mul(hn::Set(d, factor), hn::LoadU(d, from + i));
    hn::StoreU(hn::Add(hn::LoadU(d, to + i), scaled), d, to + i);
  });
}

void Pool(const Bags& bags, const float* table, size_t dim, size_t stride, float* out) {
  WithDim(dim, [&](auto width) HWY_ATTR {
    ForEachOccurrence(bags, table, width, [=](size_t bag, size_t row, float factor) HWY_ATTR {
      AddScaled(table + row * width, factor, width, out + bag * stride);
    });
  });
}

void PoolGradient(const Bags& bags, const float* gradient, size_t dim, size_t stride, float* table_gradient) {
  WithDim(dim, [&](auto width) HWY_ATTR {
    ForEachOccurrence(bags, table_gradient, width, [=](size_t bag, size_t row, float factor) HWY_ATTR {
      AddScaled(gradient + bag * stride, factor, width, table_gradient + row * width);
    });
  });
}

// Calls visit(table row, weight) for the keys of example r, slot after slot; fetch(table row) for those of the next
// one.
template <typename Fetch, typename Visit>
HWY_INLINE void ForExample(const Bags* slots, size_t slot_count, size_t r, Fetch fetch, Visit visit) {
  for (size_t s = 0; s < slot_count; ++s) {
    const Bags& bags = slots[s];
    const bool next = r + 1 < bags.count;
    if (bags.single) {
      if (next) fetch(size_t{bags.index[r + 1]});
      visit(size_t{bags.index[r]}, 1.0f);
      continue;
    }
    const uint32_t begin = bags.offsets[r], end = bags.offsets[r + 1];
    if (next && end < bags.offsets[r + 2]) fetch(size_t{bags.index[end]});
    for (uint32_t i = begin; i < end; ++i) {
      visit(size_t{bags.index[i]}, bags.weights == nullptr ? 1.0f : bags.weights[i]);
    }
  }
}

// An example's sums stay in registers while its rows go by.
void Factorize(const Bags* slots, size_t slot_count, const float* table, size_t dim, float* sums, float* squares) {
  WithDim(dim, [&](auto width) HWY_ATTR {
    for (size_t r = 0; r < slots[0].count; ++r) {
      ForRow(width, [=](auto d, size_t i) HWY_ATTR {
        auto sum = hn::Zero(d), square = hn::Zero(d);
        ForExample(
            slots, slot_count, r, [=](size_t row) HWY_ATTR { __builtin_prefetch(table + row * width + i); },
            [&](size_t row, float weight) HWY_ATTR {
              const auto value = hn::Mul(hn::Set(d, weight), hn::LoadU(d, table + row * width + i));
              sum = hn::Add(sum, value);
              square = hn::Add(square, hn::Mul(value, value));
            });
        hn::StoreU(sum, d, sums + r * width + i);
        hn::StoreU(square, d, squares + r * width + i);
      });
    }
  });
}

void FactorizeGradient(const Bags* slots, size_t slot_count, const float* table, size_t dim, const float* sums,
                       const float* dy, float* table_gradient) {
  WithDim(dim, [&](auto width) HWY_ATTR {
    for (size_t r = 0; r < slots[0].count; ++r) {
      ForRow(width, [=](auto d, size_t i) HWY_ATTR {
        const auto sum = hn::LoadU(d, sums + r * width + i);
        const float slope_of_example = dy[r];
        ForExample(
            slots, slot_count, r,
            [=](size_t row) HWY_ATTR {
              __builtin_prefetch(table + row * width + i);
              __builtin_prefetch(table_gradient + row * width + i, 1);
            },
            [=](size_t row, float weight) HWY_ATTR {
              const auto slope = hn::Set(d, slope_of_example * weight);
              const auto value = hn::Mul(hn::Set(d, weight), hn::LoadU(d, table + row * width + i));
              float* const to = table_gradient + row * width + i;
              hn::StoreU(hn::Add(hn::LoadU(d, to), hn::Mul(slope, hn::Sub(sum, value))), d, to);
            });
      });
    }
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace shoal::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace shoal::cpu {

HWY_EXPORT(Pool);
HWY_EXPORT(PoolGradient);
HWY_EXPORT(Factorize);
HWY_EXPORT(FactorizeGradient);

bool AreSingle(const uint32_t* offsets, size_t count) {
  uint32_t different = 0;  // no early end, so that the loop is vectorised: most batches are one way or the other
  for (size_t r = 0; r <= count; ++r) different |= offsets[r] ^ (offsets[0] + static_cast<uint32_t>(r));
  return different == 0;
}

void PoolBags(const Bags& bags, const float* table, size_t dim, size_t stride, float* out) {
  HWY_DYNAMIC_DISPATCH(Pool)(bags, table, dim, stride, out);
}

void PoolBagsGradient(const Bags& bags, const float* gradient, size_t dim, size_t stride, float* table_gradient) {
  HWY_DYNAMIC_DISPATCH(PoolGradient)(bags, gradient, dim, stride, table_gradient);
}

void FactorizeBags(const Bags* slots, size_t slot_count, const float* table, size_t dim, float* sums, float* squares) {
  if (slot_count > 0) HWY_DYNAMIC_DISPATCH(Factorize)(slots, slot_count, table, dim, sums, squares);
}

void FactorizeBagsGradient(const Bags* slots, size_t slot_count, const float* table, size_t dim, const float* sums,
                           const float* dy, float* table_gradient) {
  if (slot_count == 0) return;
  HWY_DYNAMIC_DISPATCH(FactorizeGradient)(slots, slot_count, table, dim, sums, dy, table_gradient);
}

}  // namespace shoal::cpu
#endif  // HWY_ONCE
