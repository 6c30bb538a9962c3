#include "kernels/cpu/elementwise.h"

#include <algorithm>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/elementwise.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace shoal::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using Floats = hn::ScalableTag<float>;
using Words = hn::RebindToUnsigned<Floats>;

// Calls at(d, i) for whole registers from 0 on, then with one lane for what is left of n.
template <typename At>
HWY_INLINE void ForEach(size_t n, At at) {
  const Floats d;
  const size_t lanes = hn::Lanes(d);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) at(d, i);
  const hn::CappedTag<float, 1> one;
  for (; i < n; ++i) at(one, i);
}

void Add(const float* HWY_RESTRICT from, size_t n, float* HWY_RESTRICT to) {
  ForEach(n, [=](auto d, size_t i)
                 HWY_ATTR { hn::StoreU(hn::Add(hn::LoadU(d, to + i), hn::LoadU(d, from + i)), d, to + i); });
}

void Multiply(const float* a, const float* b, size_t n, bool accumulate, float* to) {
  if (accumulate) {
    ForEach(n, [=](auto d, size_t i) HWY_ATTR {
      hn::StoreU(hn::Add(hn::LoadU(d, to + i), hn::Mul(hn::LoadU(d, a + i), hn::LoadU(d, b + i))), d, to + i);
    });
  } else {
    ForEach(n, [=](auto d, size_t i)
                   HWY_ATTR { hn::StoreU(hn::Mul(hn::LoadU(d, a + i), hn::LoadU(d, b + i)), d, to + i); });
  }
}

void Relu(const float* x, size_t n, float* y) {
  ForEach(n, [=](auto d, size_t i) HWY_ATTR {
    const auto v = hn::LoadU(d, x + i);
    hn::StoreU(hn::IfThenZeroElse(hn::Lt(v, hn::Zero(d)), v), d, y + i);
  });
}

void ReluGradient(ConstMatrix y, Matrix dy, float* sums) {
  for (size_t r = 0; r < dy.rows; ++r) {
    const float* const value = y.row(r);
    float* const gradient = dy.row(r);
    ForEach(dy.columns, [=](auto d, size_t i) HWY_ATTR {
      const auto kept = hn::IfThenElseZero(hn::Gt(hn::LoadU(d, value + i), hn::Zero(d)), hn::LoadU(d, gradient + i));
      hn::StoreU(kept, d, gradient + i);
      if (sums != nullptr) hn::StoreU(hn::Add(hn::LoadU(d, sums + i), kept), d, sums + i);
    });
  }
}

// The bits of v rounded to the nearest value whose lower half is zero.
template <class D, class V>
HWY_INLINE hn::VFromD<hn::RebindToUnsigned<D>> Rounded(D d, V v) {
  const hn::RebindToUnsigned<D> words;
  const auto bits = hn::BitCast(words, v);
  const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(words, 1));
  const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(words, 0x7fff)));
  // Rounding a NaN could carry into infinity; a quiet one keeps its upper bits.
  const auto quiet = hn::Or(bits, hn::Set(words, 0x400000));
  const auto chosen = hn::IfThenElse(hn::RebindMask(words, hn::IsNaN(v)), quiet, rounded);
  return hn::And(chosen, hn::Set(words, 0xffff0000u));
}

void ToBf16(const float* from, size_t n, uint16_t* to) {
  ForEach(n, [=](auto d, size_t i) HWY_ATTR {
    const hn::Rebind<uint16_t, decltype(d)> halves;
    hn::StoreU(hn::TruncateTo(halves, hn::ShiftRight<16>(Rounded(d, hn::LoadU(d, from + i)))), halves, to + i);
  });
}

void RoundToBf16(const float* from, size_t n, float* to) {
  ForEach(
      n, [=](auto d, size_t i) HWY_ATTR { hn::StoreU(hn::BitCast(d, Rounded(d, hn::LoadU(d, from + i))), d, to + i); });
}

}  // namespace HWY_NAMESPACE
}  // namespace shoal::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace shoal::cpu {

HWY_EXPORT(Add);
HWY_EXPORT(Multiply);
HWY_EXPORT(Relu);
HWY_EXPORT(ReluGradient);
HWY_EXPORT(ToBf16);
HWY_EXPORT(RoundToBf16);

void CopyOrAdd(const float* from, size_t n, bool accumulate, float* to) {
  if (accumulate) {
    HWY_DYNAMIC_DISPATCH(Add)(from, n, to);
  } else {
    std::copy_n(from, n, to);
  }
}

void Multiply(const float* a, const float* b, size_t n, bool accumulate, float* to) {
  HWY_DYNAMIC_DISPATCH(Multiply)(a, b, n, accumulate, to);
}

void AddBias(const float* bias, Matrix to) {
  for (size_t r = 0; r < to.rows; ++r) HWY_DYNAMIC_DISPATCH(Add)(bias, to.columns, to.row(r));
}

void SumRows(ConstMatrix m, bool accumulate, float* sums) {
  if (!accumulate) std::fill_n(sums, m.columns, 0.0f);
  for (size_t r = 0; r < m.rows; ++r) HWY_DYNAMIC_DISPATCH(Add)(m.row(r), m.columns, sums);
}

void Relu(const float* x, size_t n, float* y) { HWY_DYNAMIC_DISPATCH(Relu)(x, n, y); }

void ReluGradient(ConstMatrix y, Matrix dy, bool accumulate, float* sums) {
  if (sums != nullptr && !accumulate) std::fill_n(sums, dy.columns, 0.0f);
  HWY_DYNAMIC_DISPATCH(ReluGradient)(y, dy, sums);
}

void ToBf16(const float* from, size_t n, uint16_t* to) { HWY_DYNAMIC_DISPATCH(ToBf16)(from, n, to); }

void RoundToBf16(const float* from, size_t n, float* to) { HWY_DYNAMIC_DISPATCH(RoundToBf16)(from, n, to); }

void TakeColumns(ConstMatrix whole, size_t begin, bool accumulate, Matrix part) {
  for (size_t r = 0; r < part.rows; ++r) CopyOrAdd(whole.row(r) + begin, part.columns, accumulate, part.row(r));
}

void PutColumns(ConstMatrix part, size_t begin, Matrix whole) {
  for (size_t r = 0; r < part.rows; ++r) std::copy_n(part.row(r), part.columns, whole.row(r) + begin);
}

}  // namespace shoal::cpu
#endif  // HWY_ONCE
