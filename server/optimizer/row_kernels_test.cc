// Each kernel at every instruction set of this machine against the loop that its variant's formula says, bit for bit.
#include "server/optimizer/row_kernels.h"

#include <hwy/highway.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/random.h"

namespace shoal::row_kernels {
namespace {

using Floats = std::vector<float>;

constexpr size_t kRows = 19;  // more than any kernel takes at a time, and no multiple of that
constexpr size_t kDims[] = {1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 32, 33, 40, 64, 100};

Floats RandomFloats(size_t n, uint64_t seed) {
  Floats out(n);
  Random random({seed, n});
  for (float& value : out) value = static_cast<float>(random.Normal());
  return out;
}

// Rows of weights and `state` floats each; every third gradient is zero.
struct Rows {
  Rows(size_t dim, size_t state, uint64_t seed)
      : dim(dim),
        stride(dim + state),
        values(RandomFloats(kRows * stride, seed)),
        gradients(RandomFloats(kRows * dim, 9)) {
    for (size_t i = 0; i < values.size(); ++i) {
      if (i % stride >= dim) values[i] = i % 5 == 0 ? 0.0f : std::abs(values[i]);  // accumulators
    }
    for (size_t i = 0; i < gradients.size(); i += 3) gradients[i] = 0;
    for (size_t r = 0; r < kRows; ++r) {
      at.push_back(&values[r * stride]);
      states.push_back(&values[r * stride] + dim);
    }
  }
  Rows(const Rows&) = delete;
  RowBatch batch() const { return {at.data(), states.data(), gradients.data(), kRows, dim}; }

  const size_t dim, stride;
  Floats values, gradients;
  std::vector<float*> at, states;
};

// Runs `check` with every instruction set that was compiled in and that this machine has.
template <typename Check>
void AtEveryTarget(Check check) {
  for (int64_t target : hwy::SupportedAndGeneratedTargets()) {
    hwy::SetSupportedTargetsForTest(target);
    hwy::GetChosenTarget().DeInit();
    INFO(hwy::TargetName(target));
    check();
  }
  hwy::SetSupportedTargetsForTest(0);
  hwy::GetChosenTarget().DeInit();
}

// `kernel` steps a batch; `reference` one row: weights, state, gradient.
template <typename Kernel, typename Reference>
void Compare(size_t state_per_value, size_t state, Kernel kernel, Reference reference) {
  for (size_t dim : kDims) {
    INFO("dim " << dim);
    const size_t floats = state_per_value * dim + state;
    Rows expected(dim, floats, dim);
    for (size_t r = 0; r < kRows; ++r) {
      reference(expected.at[r], expected.at[r] + dim, &expected.gradients[r * dim], dim);
    }
    AtEveryTarget([&] {
      Rows got(dim, floats, dim);
      kernel(got.batch());
      CHECK(std::memcmp(got.values.data(), expected.values.data(), got.values.size() * sizeof(float)) == 0);
    });
  }
}

float ReferenceSquares(const float* values, size_t count) {
  float partial[8] = {};
  for (size_t i = 0; i < count; ++i) partial[i % 8] += values[i] * values[i];
  return ((partial[0] + partial[1]) + (partial[2] + partial[3])) +
         ((partial[4] + partial[5]) + (partial[6] + partial[7]));
}

constexpr float kRate = 0.05f, kEpsilon = 1e-8f;
const AdamParameters kAdam{0.01f, 0.9f, 0.999f, 1e-8f};
// Of rows at different steps.
const Floats kCorrections = [] {
  Floats out;
  for (size_t t = 1; t <= kRows; ++t) {
    for (const double beta : {0.9, 0.999}) out.push_back(static_cast<float>(1 / (1 - std::pow(beta, t))));
  }
  return out;
}();

TEST_CASE("Row kernels: sgd and momentum", "[optimizer][unit]") {
  Compare(
      0, 0, [](const RowBatch& b) { Sgd(b, kRate); },
      [](float* w, float*, const float* g, size_t dim) {
        for (size_t i = 0; i < dim; ++i) w[i] -= kRate * g[i];
      });
  for (const bool nesterov : {false, true}) {
    Compare(
        1, 0, [&](const RowBatch& b) { Momentum(b, kRate, 0.9f, nesterov); },
        [&](float* w, float* s, const float* g, size_t dim) {
          for (size_t i = 0; i < dim; ++i) {
            s[i] = 0.9f * s[i] + g[i];
            w[i] -= kRate * (nesterov ? g[i] + 0.9f * s[i] : s[i]);
          }
        });
  }
}

TEST_CASE("Row kernels: adagrad, with epsilon 0 too", "[optimizer][unit]") {
  for (const float epsilon : {kEpsilon, 0.0f}) {
    Compare(
        1, 0, [&](const RowBatch& b) { Adagrad(b, kRate, epsilon); },
        [&](float* w, float* s, const float* g, size_t dim) {
          for (size_t i = 0; i < dim; ++i) {
            s[i] += g[i] * g[i];
            const float root = std::sqrt(s[i]) + epsilon;
            w[i] -= root > 0 ? kRate * g[i] / root : 0.0f;
          }
        });
    Compare(
        0, 1, [&](const RowBatch& b) { RowwiseAdagrad(b, kRate, epsilon); },
        [&](float* w, float* s, const float* g, size_t dim) {
          s[0] += ReferenceSquares(g, dim) / static_cast<float>(dim);
          const float root = std::sqrt(s[0]) + epsilon;
          if (!(root > 0)) return;
          const float step = kRate / root;
          for (size_t i = 0; i < dim; ++i) w[i] -= step * g[i];
        });
  }
}

// Both keep m and v; `u` is AMSGrad's running maximum.
void ReferenceAdam(float* w, float* m, float* v, float* u, const float* g, size_t dim, const float* corrections) {
  for (size_t i = 0; i < dim; ++i) {
    m[i] = kAdam.beta1 * m[i] + (1 - kAdam.beta1) * g[i];
    v[i] = kAdam.beta2 * v[i] + (1 - kAdam.beta2) * g[i] * g[i];
    if (u != nullptr) u[i] = std::max(u[i], v[i]);
    const float root = std::sqrt((u != nullptr ? u[i] : v[i]) * corrections[1]) + kAdam.epsilon;
    w[i] -= root > 0 ? kAdam.rate * (m[i] * corrections[0]) / root : 0.0f;
  }
}

TEST_CASE("Row kernels: adam and amsgrad", "[optimizer][unit]") {
  size_t row = 0;
  Compare(
      2, 1, [](const RowBatch& b) { Adam(b, kAdam, kCorrections.data()); },
      [&](float* w, float* s, const float* g, size_t dim) {
        ReferenceAdam(w, s, s + dim, nullptr, g, dim, &kCorrections[2 * (row++ % kRows)]);
      });
  Compare(
      3, 1, [](const RowBatch& b) { Amsgrad(b, kAdam, kCorrections.data()); },
      [&](float* w, float* s, const float* g, size_t dim) {
        ReferenceAdam(w, s, s + dim, s + 2 * dim, g, dim, &kCorrections[2 * (row++ % kRows)]);
      });
}

TEST_CASE("Row kernels: ftrl, with and without l1", "[optimizer][unit]") {
  for (const float l1 : {0.0f, 0.5f}) {
    Compare(
        2, 0, [&](const RowBatch& b) { Ftrl(b, 0.1f, 1, l1, 0.01f); },
        [&](float* w, float* s, const float* g, size_t dim) {
          for (size_t i = 0; i < dim; ++i) {
            float &z = s[i], &n = s[dim + i];
            const float squares = n + g[i] * g[i];
            const float root = std::sqrt(squares);
            z += g[i] - (root - std::sqrt(n)) / 0.1f * w[i];
            n = squares;
            w[i] = std::abs(z) <= l1 ? 0.0f : -(z - std::copysign(l1, z)) / ((1 + root) / 0.1f + 0.01f);
          }
        });
  }
}

TEST_CASE("Row kernels: sums are divided, and a row with NaN, Inf or a large value is no good", "[optimizer][unit]") {
  for (size_t dim : kDims) {
    for (const float divisor : {1.0f, 512.0f, 7.0f, 3e-3f}) {
      Floats sums = RandomFloats(kRows * dim, 3);
      sums[1 * dim + dim / 2] = std::numeric_limits<float>::quiet_NaN();
      sums[2 * dim + dim - 1] = -std::numeric_limits<float>::infinity();
      sums[3 * dim] = 101 * divisor;
      AtEveryTarget([&] {
        Floats out(sums.size());
        uint8_t good[kRows];
        DivideRows(sums.data(), kRows, dim, divisor, 100 / std::min(divisor, 1.0f), out.data(), good);
        for (size_t i = 0; i < sums.size(); ++i) {
          if (i != 1 * dim + dim / 2) CHECK(out[i] == sums[i] / divisor);
        }
        CHECK(good[0] == 1);
        CHECK(good[1] == 0);
        CHECK(good[2] == 0);
        if (divisor >= 1) CHECK(good[3] == 0);
        CHECK(good[4] == 1);
      });
    }
    const Floats values = RandomFloats(dim, 4);
    AtEveryTarget([&] { CHECK(SumSquares(values.data(), dim) == ReferenceSquares(values.data(), dim)); });
  }
}

}  // namespace
}  // namespace shoal::row_kernels
