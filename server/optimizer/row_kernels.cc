#include "server/optimizer/row_kernels.h"

#include <algorithm>
#include <cmath>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "server/optimizer/row_kernels.cc"
#include "hwy/foreach_target.h"
// After foreach_target.h.
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace shoal::row_kernels {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Calls at(d, i) for whole registers from 0 on, then with one lane for what is left of n. Elementwise work only: the
// bits of a value don't depend on the width.
template <typename At>
HWY_INLINE void ForEach(size_t n, At at) {
  const hn::ScalableTag<float> wide;
  const size_t lanes = hn::Lanes(wide);
  size_t i = 0;
  for (; i + lanes <= n; i += lanes) at(wide, i);
  if (n - i >= 8 && lanes > 8) {
    const hn::CappedTag<float, 8> eight;
    at(eight, i);
    i += 8;
  }
  if (n - i >= 4) {
    const hn::CappedTag<float, 4> four;
    at(four, i);
    i += 4;
  }
  const hn::CappedTag<float, 1> one;
  for (; i < n; ++i) at(one, i);
}

template <typename Row>
HWY_INLINE void ForRows(const RowBatch& batch, Row row) {
  for (size_t r = 0; r < batch.count; ++r) {
    row(r, batch.rows[r], batch.states[r], batch.gradients + r * batch.dim);
  }
}

// Rows of sums times `factor` (kPower) or divided by `divisor`.
template <bool kPower>
HWY_INLINE void DivideAll(const float* HWY_RESTRICT sums, size_t rows, size_t dim, float divisor, float max_abs,
                          float* HWY_RESTRICT out, uint8_t* HWY_RESTRICT good) {
  const float factor = 1.0f / divisor;
  const hn::ScalableTag<float> wide;
  const size_t lanes = hn::Lanes(wide);
  const auto bound = hn::Set(wide, max_abs);
  for (size_t r = 0; r < rows; ++r, sums += dim, out += dim) {
    auto fits = hn::Eq(bound, bound);
    size_t i = 0;
    for (; i + lanes <= dim; i += lanes) {
      const auto sum = hn::LoadU(wide, sums + i);
      const auto value = kPower ? hn::Mul(sum, hn::Set(wide, factor)) : hn::Div(sum, hn::Set(wide, divisor));
      hn::StoreU(value, wide, out + i);
      fits = hn::And(fits, hn::Le(hn::Abs(value), bound));
    }
    bool rest = true;
    for (; i < dim; ++i) {
      out[i] = kPower ? sums[i] * factor : sums[i] / divisor;
      // Written so that a NaN counts as too large.
      rest &= std::abs(out[i]) <= max_abs;
    }
    good[r] = rest && hn::AllTrue(wide, fits);
  }
}

void DivideRows(const float* sums, size_t rows, size_t dim, float divisor, float max_abs, float* out, uint8_t* good) {
  // A multiplication by a power of two is exact and so gives the quotient's bits.
  int exponent;
  if (std::frexp(divisor, &exponent) == 0.5f && exponent > -100 && exponent < 100) {
    DivideAll<true>(sums, rows, dim, divisor, max_abs, out, good);
  } else {
    DivideAll<false>(sums, rows, dim, divisor, max_abs, out, good);
  }
}

float PartialSum(const float* partial) {
  return ((partial[0] + partial[1]) + (partial[2] + partial[3])) +
         ((partial[4] + partial[5]) + (partial[6] + partial[7]));
}

#if HWY_TARGET == HWY_SCALAR
float Squares(const float* values, size_t count) {
  float partial[8] = {};
  for (size_t i = 0; i < count; ++i) partial[i % 8] += values[i] * values[i];
  return PartialSum(partial);
}
#else
// ((v0 + v1) + (v2 + v3)) in each lane; which of two summands is first makes no difference to a sum.
template <class D, class V>
HWY_INLINE V AddPairs(D d, V v) {
  const auto pairs = hn::Add(v, hn::Shuffle2301(v));
  return hn::Add(pairs, hn::Shuffle1032(pairs));
}

HWY_INLINE float Squares(const float* values, size_t count) {
  const hn::Full128<float> d;
#if HWY_ARCH_X86 && HWY_MAX_BYTES >= 32
  if (count % 8 == 0) {
    const hn::Full256<float> all;
    auto sums = hn::Zero(all);
    for (size_t i = 0; i < count; i += 8) {
      const auto a = hn::LoadU(all, values + i);
      sums = hn::Add(sums, hn::Mul(a, a));
    }
    const auto halves = AddPairs(all, sums);  // of partial sums 0 to 3 and 4 to 7
    return hn::GetLane(hn::Add(hn::LowerHalf(d, halves), hn::UpperHalf(d, halves)));
  }
#endif
  auto low = hn::Zero(d), high = hn::Zero(d);  // partial sums 0 to 3 and 4 to 7
  size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const auto a = hn::LoadU(d, values + i), b = hn::LoadU(d, values + i + 4);
    low = hn::Add(low, hn::Mul(a, a));
    high = hn::Add(high, hn::Mul(b, b));
  }
  if (i == count) return hn::GetLane(hn::Add(AddPairs(d, low), AddPairs(d, high)));
  float partial[8];
  hn::StoreU(low, d, partial);
  hn::StoreU(high, d, partial + 4);
  for (size_t k = 0; i < count; ++i, ++k) partial[k] += values[i] * values[i];
  return PartialSum(partial);
}
#endif

float SumSquares(const float* values, size_t count) { return Squares(values, count); }

// w -= step * g.
HWY_INLINE void Subtract(float* w, const float* g, size_t dim, float step) {
  ForEach(dim, [=](auto d, size_t i) HWY_ATTR {
    hn::StoreU(hn::Sub(hn::LoadU(d, w + i), hn::Mul(hn::Set(d, step), hn::LoadU(d, g + i))), d, w + i);
  });
}

void Sgd(const RowBatch& batch, float rate) {
  ForRows(batch, [=](size_t, float* w, float*, const float* g) HWY_ATTR { Subtract(w, g, batch.dim, rate); });
}

void Momentum(const RowBatch& batch, float rate, float momentum, bool nesterov) {
  ForRows(batch, [=](size_t, float* w, float* s, const float* g) HWY_ATTR {
    ForEach(batch.dim, [=](auto d, size_t i) HWY_ATTR {
      const auto mu = hn::Set(d, momentum);
      const auto gradient = hn::LoadU(d, g + i);
      const auto v = hn::Add(hn::Mul(mu, hn::LoadU(d, s + i)), gradient);
      hn::StoreU(v, d, s + i);
      const auto step = nesterov ? hn::Add(gradient, hn::Mul(mu, v)) : v;
      hn::StoreU(hn::Sub(hn::LoadU(d, w + i), hn::Mul(hn::Set(d, rate), step)), d, w + i);
    });
  });
}

// w -= numerator / root where root > 0: epsilon may be 0, and a zero gradient on a fresh accumulator then moves nothing
// instead of making a NaN.
template <class D, class V>
HWY_INLINE void Move(D d, float* w, V numerator, V root) {
  const auto step = hn::IfThenElseZero(hn::Gt(root, hn::Zero(d)), hn::Div(numerator, root));
  hn::StoreU(hn::Sub(hn::LoadU(d, w), step), d, w);
}

void Adagrad(const RowBatch& batch, float rate, float epsilon) {
  ForRows(batch, [=](size_t, float* w, float* s, const float* g) HWY_ATTR {
    ForEach(batch.dim, [=](auto d, size_t i) HWY_ATTR {
      const auto gradient = hn::LoadU(d, g + i);
      const auto a = hn::Add(hn::LoadU(d, s + i), hn::Mul(gradient, gradient));
      hn::StoreU(a, d, s + i);
      const auto root = hn::Add(hn::Sqrt(a), hn::Set(d, epsilon));
      Move(d, w + i, hn::Mul(hn::Set(d, rate), gradient), root);
    });
  });
}

void RowwiseAdagrad(const RowBatch& batch, float rate, float epsilon) {
  const size_t dim = batch.dim;
  // Roots and quotients of many rows at a time: one by one they would take longer than everything else.
  constexpr size_t kRows = 16;
  const hn::CappedTag<float, kRows> d;
  for (size_t begin = 0; begin < batch.count; begin += kRows) {
    const size_t count = std::min(kRows, batch.count - begin);
    float* const* const rows = batch.rows + begin;
    float* const* const states = batch.states + begin;
    const float* const gradients = batch.gradients + begin * dim;
    HWY_ALIGN float squares[kRows], sums[kRows] = {}, roots[kRows], steps[kRows];
    for (size_t r = 0; r < count; ++r) {
      squares[r] = Squares(gradients + r * dim, dim);
      sums[r] = *states[r];
    }
    for (size_t r = count; r < kRows; ++r) squares[r] = 0;
    for (size_t r = 0; r < count; r += hn::Lanes(d)) {
      const auto mean = hn::Div(hn::Load(d, squares + r), hn::Set(d, static_cast<float>(dim)));
      const auto a = hn::Add(hn::Load(d, sums + r), mean);
      const auto root = hn::Add(hn::Sqrt(a), hn::Set(d, epsilon));
      hn::Store(a, d, sums + r);
      hn::Store(root, d, roots + r);
      hn::Store(hn::Div(hn::Set(d, rate), root), d, steps + r);
    }
    for (size_t r = 0; r < count; ++r) {
      *states[r] = sums[r];
      // As in Move.
      if (roots[r] > 0) Subtract(rows[r], gradients + r * dim, dim, steps[r]);
    }
  }
}

// m and v of Adam; returns the numerator of the step.
template <class D>
HWY_INLINE auto Moments(D d, const AdamParameters& p, float first, const float* g, float* m, float* v,
                        hn::VFromD<D>* out) -> hn::VFromD<D> {
  const auto gradient = hn::LoadU(d, g);
  const auto mean = hn::Add(hn::Mul(hn::Set(d, p.beta1), hn::LoadU(d, m)), hn::Mul(hn::Set(d, 1 - p.beta1), gradient));
  const auto square = hn::Mul(hn::Mul(hn::Set(d, 1 - p.beta2), gradient), gradient);
  *out = hn::Add(hn::Mul(hn::Set(d, p.beta2), hn::LoadU(d, v)), square);
  hn::StoreU(mean, d, m);
  hn::StoreU(*out, d, v);
  return hn::Mul(hn::Set(d, p.rate), hn::Mul(mean, hn::Set(d, first)));
}

void Adam(const RowBatch& batch, const AdamParameters& p, const float* corrections) {
  const size_t dim = batch.dim;
  ForRows(batch, [=](size_t r, float* w, float* s, const float* g) HWY_ATTR {
    const float first = corrections[2 * r], second = corrections[2 * r + 1];
    ForEach(dim, [=](auto d, size_t i) HWY_ATTR {
      hn::VFromD<decltype(d)> v;
      const auto numerator = Moments(d, p, first, g + i, s + i, s + dim + i, &v);
      Move(d, w + i, numerator, hn::Add(hn::Sqrt(hn::Mul(v, hn::Set(d, second))), hn::Set(d, p.epsilon)));
    });
  });
}

void Amsgrad(const RowBatch& batch, const AdamParameters& p, const float* corrections) {
  const size_t dim = batch.dim;
  ForRows(batch, [=](size_t r, float* w, float* s, const float* g) HWY_ATTR {
    const float first = corrections[2 * r], second = corrections[2 * r + 1];
    ForEach(dim, [=](auto d, size_t i) HWY_ATTR {
      hn::VFromD<decltype(d)> v;
      const auto numerator = Moments(d, p, first, g + i, s + i, s + dim + i, &v);
      const auto before = hn::LoadU(d, s + 2 * dim + i);
      const auto u = hn::IfThenElse(hn::Lt(before, v), v, before);
      hn::StoreU(u, d, s + 2 * dim + i);
      Move(d, w + i, numerator, hn::Add(hn::Sqrt(hn::Mul(u, hn::Set(d, second))), hn::Set(d, p.epsilon)));
    });
  });
}

void Ftrl(const RowBatch& batch, float alpha, float beta, float l1, float l2) {
  const size_t dim = batch.dim;
  ForRows(batch, [=](size_t, float* w, float* s, const float* g) HWY_ATTR {
    ForEach(dim, [=](auto d, size_t i) HWY_ATTR {
      const auto gradient = hn::LoadU(d, g + i), weight = hn::LoadU(d, w + i), n = hn::LoadU(d, s + dim + i);
      const auto squares = hn::Add(n, hn::Mul(gradient, gradient));
      const auto root = hn::Sqrt(squares);
      const auto rate = hn::Set(d, alpha), bound = hn::Set(d, l1);
      const auto shift = hn::Mul(hn::Div(hn::Sub(root, hn::Sqrt(n)), rate), weight);
      const auto z = hn::Add(hn::LoadU(d, s + i), hn::Sub(gradient, shift));
      hn::StoreU(z, d, s + i);
      hn::StoreU(squares, d, s + dim + i);
      const auto down = hn::Add(hn::Div(hn::Add(hn::Set(d, beta), root), rate), hn::Set(d, l2));
      const auto moved = hn::Div(hn::Neg(hn::Sub(z, hn::CopySign(bound, z))), down);
      hn::StoreU(hn::IfThenZeroElse(hn::Le(hn::Abs(z), bound), moved), d, w + i);
    });
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace shoal::row_kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace shoal::row_kernels {

HWY_EXPORT(DivideRows);
HWY_EXPORT(SumSquares);
HWY_EXPORT(Sgd);
HWY_EXPORT(Momentum);
HWY_EXPORT(Adagrad);
HWY_EXPORT(RowwiseAdagrad);
HWY_EXPORT(Adam);
HWY_EXPORT(Amsgrad);
HWY_EXPORT(Ftrl);

void DivideRows(const float* sums, size_t rows, size_t dim, float divisor, float max_abs, float* out, uint8_t* good) {
  HWY_DYNAMIC_DISPATCH(DivideRows)(sums, rows, dim, divisor, max_abs, out, good);
}
float SumSquares(const float* values, size_t count) { return HWY_DYNAMIC_DISPATCH(SumSquares)(values, count); }
void Sgd(const RowBatch& batch, float rate) { HWY_DYNAMIC_DISPATCH(Sgd)(batch, rate); }
void Momentum(const RowBatch& batch, float rate, float momentum, bool nesterov) {
  HWY_DYNAMIC_DISPATCH(Momentum)(batch, rate, momentum, nesterov);
}
void Adagrad(const RowBatch& batch, float rate, float epsilon) { HWY_DYNAMIC_DISPATCH(Adagrad)(batch, rate, epsilon); }
void RowwiseAdagrad(const RowBatch& batch, float rate, float epsilon) {
  HWY_DYNAMIC_DISPATCH(RowwiseAdagrad)(batch, rate, epsilon);
}
void Adam(const RowBatch& batch, const AdamParameters& parameters, const float* corrections) {
  HWY_DYNAMIC_DISPATCH(Adam)(batch, parameters, corrections);
}
void Amsgrad(const RowBatch& batch, const AdamParameters& parameters, const float* corrections) {
  HWY_DYNAMIC_DISPATCH(Amsgrad)(batch, parameters, corrections);
}
void Ftrl(const RowBatch& batch, float alpha, float beta, float l1, float l2) {
  HWY_DYNAMIC_DISPATCH(Ftrl)(batch, alpha, beta, l1, l2);
}

}  // namespace shoal::row_kernels
#endif  // HWY_ONCE
