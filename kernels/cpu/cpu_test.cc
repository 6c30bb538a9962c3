// Kernels against the slow references, within bounds that follow from float arithmetic.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <thread>

#include "base/random.h"
#include "hwy/targets.h"
#include "kernels/cpu/activation.h"
#include "kernels/cpu/dot_interaction.h"
#include "kernels/cpu/elementwise.h"
#include "kernels/cpu/fm.h"
#include "kernels/cpu/layer_norm.h"
#include "kernels/cpu/linear_products.h"
#include "kernels/cpu/matmul.h"
#include "kernels/cpu/pooling.h"
#include "kernels/reference/reference.h"

namespace shoal::cpu {
namespace {

using Floats = std::vector<float>;

Floats RandomFloats(size_t n, uint64_t seed) {
  Random random({seed});
  Floats values(n);
  for (float& v : values) v = static_cast<float>(random.Normal());
  return values;
}

ConstMatrix View(const Floats& values, size_t rows, size_t columns) {
  return {values.data(), rows, columns, Device::kCpu};
}
Matrix View(Floats* values, size_t rows, size_t columns) { return {values->data(), rows, columns, Device::kCpu}; }

// `terms`: products in one sum; `start`: what the sum was added to.
void CheckSums(const Floats& actual, const reference::Sums& expected, size_t terms, float start = 0) {
  REQUIRE(actual.size() == expected.value.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    const double tolerance = reference::Tolerance(terms, expected.magnitude[i] + std::fabs(start));
    if (!(std::fabs(actual[i] - expected.value[i] - start) <= tolerance)) {
      INFO(i << ": " << actual[i] << " against " << expected.value[i] + start);
      FAIL_CHECK("beyond " << tolerance);
    }
  }
}

TEST_CASE("MatMul: all forms and shapes against the reference", "[unit]") {
  const size_t shapes[][3] = {{1, 1, 1}, {3, 5, 7}, {64, 1, 33}, {1, 40, 9}, {37, 130, 257}, {128, 64, 400}};
  for (const auto& [m, n, k] : shapes) {
    for (int form = 0; form < 8; ++form) {
      const bool ta = form & 1, tb = form & 2, accumulate = form & 4;
      INFO(m << " x " << n << " x " << k << ", form " << form);
      const Floats a = RandomFloats(m * k, 1), b = RandomFloats(k * n, 2);
      const ConstMatrix va = ta ? View(a, k, m) : View(a, m, k), vb = tb ? View(b, n, k) : View(b, k, n);
      Floats c(m * n, accumulate ? 3.0f : NAN);
      MatMul(va, ta ? Transpose::kYes : Transpose::kNo, vb, tb ? Transpose::kYes : Transpose::kNo, accumulate,
             View(&c, m, n));
      CheckSums(c, reference::MatMul(va, ta, vb, tb, m, n, k), k + 1, accumulate ? 3.0f : 0.0f);
    }
  }
}

TEST_CASE("MatMul: empty sums are zero, empty results untouched", "[unit]") {
  Floats c = {5, 5, 5, 5};
  MatMul(View(Floats(), 2, 0), Transpose::kNo, View(Floats(), 0, 2), Transpose::kNo, true, View(&c, 2, 2));
  CHECK(c == Floats{5, 5, 5, 5});
  MatMul(View(Floats(), 2, 0), Transpose::kNo, View(Floats(), 0, 2), Transpose::kNo, false, View(&c, 2, 2));
  CHECK(c == Floats{0, 0, 0, 0});
  c = {7};
  MatMul(View(c, 0, 1), Transpose::kNo, View(c, 1, 0), Transpose::kNo, false, View(&c, 0, 0));
  CHECK(c == Floats{7});
}

TEST_CASE("MatMul: same bits on any number of threads and at any address", "[unit]") {
  constexpr size_t kM = 190, kN = 77, kK = 413, kThreads = 4;
  const Floats a = RandomFloats(kM * kK, 3), b = RandomFloats(kK * kN, 4);
  Floats expected(kM * kN);
  MatMul(View(a, kM, kK), Transpose::kNo, View(b, kK, kN), Transpose::kNo, false, View(&expected, kM, kN));
  std::vector<Floats> results(kThreads);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      Floats shifted_a(t), shifted_b(2 * t), shifted_c(3 * t + kM * kN);
      shifted_a.insert(shifted_a.end(), a.begin(), a.end());
      shifted_b.insert(shifted_b.end(), b.begin(), b.end());
      for (int i = 0; i < 5; ++i) {
        MatMul({shifted_a.data() + t, kM, kK, Device::kCpu}, Transpose::kNo,
               {shifted_b.data() + 2 * t, kK, kN, Device::kCpu}, Transpose::kNo, false,
               {shifted_c.data() + 3 * t, kM, kN, Device::kCpu});
      }
      results[t].assign(shifted_c.begin() + 3 * t, shifted_c.end());
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Floats& result : results) {
    CHECK(std::memcmp(result.data(), expected.data(), kM * kN * sizeof(float)) == 0);
  }
}

TEST_CASE("Fm and dot interaction against the reference", "[unit]") {
  for (size_t dim : {1, 3, 4, 16, 19}) {
    constexpr size_t kRows = 9, kFields = 6;
    const Floats x = RandomFloats(kRows * kFields * dim, dim);
    const ConstMatrix view = View(x, kRows, kFields * dim);
    Floats sums(kRows * dim), y(kRows);
    Fm(view, dim, sums.data(), y.data());
    // The formula with the square of the sum goes through all products, those of a field with itself twice.
    reference::Sums fm = reference::Fm(view, dim);
    for (size_t r = 0; r < kRows; ++r) {
      for (size_t c = 0; c < view.columns; ++c) fm.magnitude[r] += 2 * view.row(r)[c] * view.row(r)[c];
      fm.magnitude[r] *= 2;
    }
    CheckSums(y, fm, kFields * dim + dim);
    Floats dots(kRows * kFields * (kFields - 1) / 2);
    DotInteraction(view, dim, View(&dots, kRows, kFields * (kFields - 1) / 2));
    CheckSums(dots, reference::DotInteraction(view, dim), dim);
  }
}

TEST_CASE("Layer norm against the reference", "[unit]") {
  constexpr size_t kRows = 7, kColumns = 33;
  const Floats x = RandomFloats(kRows * kColumns, 5), scale = RandomFloats(kColumns, 6),
               shift = RandomFloats(kColumns, 7);
  Floats y(x.size()), statistics(2 * kRows);
  LayerNorm(View(x, kRows, kColumns), scale.data(), shift.data(), 1e-5f, statistics.data(), View(&y, kRows, kColumns));
  const reference::Values expected = reference::LayerNorm(View(x, kRows, kColumns), scale.data(), shift.data(), 1e-5f);
  // Mean, difference, inverse, product, scale, shift: 6 roundings of values below 16.
  for (size_t i = 0; i < y.size(); ++i) CHECK(y[i] == Approx(expected[i]).margin(6 * 0x1.0p-24 * 16));
}

TEST_CASE("Activations and their gradients at chosen points", "[unit]") {
  const Floats x = {-200, -1, -0.0f, 0.5f, 200};
  const Floats dy = {1, 2, 3, 4, 5};
  const ActivationKind kinds[] = {ActivationKind::kRelu, ActivationKind::kSigmoid, ActivationKind::kTanh,
                                  ActivationKind::kLinear};
  for (ActivationKind kind : kinds) {
    Floats y(5), dx(5, NAN), added(5, 10);
    Activate(kind, x.data(), 5, y.data());
    ActivateGradient(kind, y.data(), dy.data(), 5, false, dx.data());
    ActivateGradient(kind, y.data(), dy.data(), 5, true, added.data());
    for (size_t i = 0; i < 5; ++i) {
      const double v = x[i], s = 1 / (1 + std::exp(-v)), t = std::tanh(v);
      const double value[] = {v > 0 ? v : 0, s, t, v}, slope[] = {v > 0 ? 1.0 : 0.0, s * (1 - s), 1 - t * t, 1};
      CHECK(y[i] == Approx(value[static_cast<int>(kind)]).margin(1e-7));
      CHECK(dx[i] == Approx(slope[static_cast<int>(kind)] * dy[i]).margin(1e-6));
      CHECK(added[i] == Approx(10 + dx[i]));
    }
  }
  const float nan = NAN;
  float y = 0;
  Activate(ActivationKind::kRelu, &nan, 1, &y);
  CHECK(std::isnan(y));
}

TEST_CASE("Pooling: sums, means, weights, empty bags, repeated rows", "[unit]") {
  const Floats table = {1, 10, 2, 20, 3, 30};
  const std::vector<uint32_t> offsets = {0, 2, 2, 5}, index = {0, 2, 1, 1, 0};
  const Floats weights = {1, 2, 3, 4, 5};
  Bags bags;
  bags.count = 3;
  bags.offsets = offsets.data();
  bags.index = index.data();
  Floats out(9, 0);  // stride 3: the last column of each row is another slot's
  PoolBags(bags, table.data(), 2, 3, out.data());
  CHECK(out == Floats{4, 40, 0, 0, 0, 0, 5, 50, 0});
  bags.weights = weights.data();
  bags.mean = true;
  out.assign(9, 0);
  PoolBags(bags, table.data(), 2, 3, out.data());
  CHECK(out[0] == 3.5f);
  CHECK(out[3] == 0);
  CHECK(out[6] == Approx((6 + 8 + 5) / 3.0));
  bags.mean = false;
  const Floats gradient = {1, 2, 0, 100, 100, 0, 10, 20, 0};
  Floats table_gradient(6, 0);
  PoolBagsGradient(bags, gradient.data(), 2, 3, table_gradient.data());
  CHECK(table_gradient == Floats{1 + 50, 2 + 100, 70, 140, 2, 4});
}

TEST_CASE("Elementwise: copy, add, multiply, bias, column sums, column ranges", "[unit]") {
  const Floats m = {1, 2, 3, 4, 5, 6};
  Floats to(6, 1);
  CopyOrAdd(m.data(), 6, true, to.data());
  CHECK(to == Floats{2, 3, 4, 5, 6, 7});
  Multiply(m.data(), m.data(), 6, false, to.data());
  CHECK(to == Floats{1, 4, 9, 16, 25, 36});
  Multiply(m.data(), m.data(), 6, true, to.data());
  CHECK(to == Floats{2, 8, 18, 32, 50, 72});
  const Floats bias = {10, 20, 30};
  AddBias(bias.data(), View(&to, 2, 3));
  CHECK(to == Floats{12, 28, 48, 42, 70, 102});
  Floats sums(3, NAN);
  SumRows(View(m, 2, 3), false, sums.data());
  CHECK(sums == Floats{5, 7, 9});
  Floats part(4, 1);
  TakeColumns(View(m, 2, 3), 1, true, View(&part, 2, 2));
  CHECK(part == Floats{3, 4, 6, 7});
  TakeColumns(View(m, 2, 3), 0, false, View(&part, 2, 2));
  CHECK(part == Floats{1, 2, 4, 5});
  to.assign(6, 0);
  PutColumns(View(part, 2, 2), 1, View(&to, 2, 3));
  CHECK(to == Floats{0, 1, 2, 0, 4, 5});
}

float RoundedToBf16(float x) {
  float y;
  RoundToBf16(&x, 1, &y);
  return y;
}

Floats RoundedToBf16(Floats values) {
  for (float& v : values) v = RoundedToBf16(v);
  return values;
}

// All three products of one shape, with the factors that the precision asks for.
void CheckProducts(size_t rows, size_t inputs, size_t units, Precision precision) {
  INFO(rows << " x " << inputs << " x " << units << (precision == Precision::kBf16 ? ", bf16" : ", f32"));
  const bool rounds = precision == Precision::kBf16 && std::min({rows, inputs, units}) >= LinearProducts::kNarrow;
  const auto factor = [=](const Floats& v) { return rounds ? RoundedToBf16(v) : v; };
  const Floats x = RandomFloats(rows * inputs, 1), w = RandomFloats(inputs * units, 2), bias = RandomFloats(units, 3),
               dy = RandomFloats(rows * units, 4);
  const Floats fx = factor(x), fw = factor(w), fdy = factor(dy);
  LinearProducts products(inputs, units, precision);
  Floats y(rows * units, NAN), rectified(rows * units, NAN), dw(w.size(), NAN), dx(x.size(), NAN), added(x.size(), 2);
  const ConstMatrix vx = View(x, rows, inputs), vdy = View(dy, rows, units);
  reference::Sums expected =
      reference::MatMul(View(fx, rows, inputs), false, View(fw, inputs, units), false, rows, units, inputs);
  products.UseWeight(w.data());
  products.Forward(vx, nullptr, false, View(&y, rows, units));
  CheckSums(y, expected, inputs + 1);
  products.Forward(vx, bias.data(), true, View(&rectified, rows, units));
  for (size_t i = 0; i < y.size(); ++i) {
    expected.value[i] = std::max(0.0, expected.value[i] + bias[i % units]);
    expected.magnitude[i] += std::fabs(bias[i % units]);
  }
  CheckSums(rectified, expected, inputs + 2);
  products.Backward(vx, vdy, false, dw.data(), false, View(&dx, rows, inputs));
  CheckSums(dw, reference::MatMul(View(fx, rows, inputs), true, View(fdy, rows, units), false, inputs, units, rows),
            rows + 1);
  const reference::Sums back =
      reference::MatMul(View(fdy, rows, units), false, View(fw, inputs, units), true, rows, inputs, units);
  CheckSums(dx, back, units + 1);
  products.Backward(vx, vdy, false, dw.data(), true, View(&added, rows, inputs));
  CheckSums(added, back, units + 2, 2);
}

TEST_CASE("LinearProducts: all three products, narrow and wide, f32 and bf16, against the reference", "[unit]") {
  const size_t shapes[][3] = {{1, 400, 30}, {16, 16, 16}, {17, 40, 17}, {300, 17, 3},  {531, 40, 65},
                              {64, 1, 400}, {15, 64, 64}, {3, 3, 1},    {257, 129, 33}};
  for (const auto& [rows, inputs, units] : shapes) {
    CheckProducts(rows, inputs, units, Precision::kF32);
    CheckProducts(rows, inputs, units, Precision::kBf16);
  }
  CheckProducts(65536, 17, 16, Precision::kF32);
  CheckProducts(65536, 17, 16, Precision::kBf16);
}

TEST_CASE("LinearProducts: the bits depend neither on earlier batches nor on the thread", "[unit]") {
  constexpr size_t kInputs = 70, kUnits = 50, kRows = 333;
  for (const Precision precision : {Precision::kF32, Precision::kBf16}) {
    const Floats x = RandomFloats(1000 * kInputs, 1), w = RandomFloats(kInputs * kUnits, 2),
                 dy = RandomFloats(1000 * kUnits, 3);
    const auto run = [&](LinearProducts* products, size_t rows) {
      Floats y(rows * kUnits), dw(w.size()), dx(rows * kInputs);
      products->UseWeight(w.data());
      products->Forward(View(x, rows, kInputs), nullptr, true, View(&y, rows, kUnits));
      products->Backward(View(x, rows, kInputs), View(dy, rows, kUnits), false, dw.data(), false,
                         View(&dx, rows, kInputs));
      y.insert(y.end(), dw.begin(), dw.end());
      y.insert(y.end(), dx.begin(), dx.end());
      return y;
    };
    LinearProducts fresh(kInputs, kUnits, precision), used(kInputs, kUnits, precision);
    const Floats expected = run(&fresh, kRows);
    Floats other;
    std::thread([&] {
      for (size_t rows : {1000, 1, 64, 20}) run(&used, rows);
      other = run(&used, kRows);
    }).join();
    CHECK(std::memcmp(expected.data(), other.data(), expected.size() * sizeof(float)) == 0);
  }
}

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

TEST_CASE("Elementwise: the same bits with every instruction set, whole registers and rests", "[unit]") {
  for (size_t n : {0, 1, 3, 15, 16, 17, 40, 161}) {
    const Floats a = RandomFloats(4 * n, 1), b = RandomFloats(4 * n, 2);
    Floats sum(4 * n), product(4 * n), rectified(4 * n), passed(4 * n), columns(n, 0.0f);
    for (size_t i = 0; i < 4 * n; ++i) {
      sum[i] = b[i] + a[i];
      product[i] = a[i] * b[i];
      rectified[i] = a[i] < 0 ? 0 : a[i];
      passed[i] = a[i] > 0 ? b[i] : 0;
      columns[i % n] += passed[i];
    }
    AtEveryTarget([&] {
      Floats to = b, out(4 * n, NAN), gradient = b, sums(n, NAN);
      CopyOrAdd(a.data(), 4 * n, true, to.data());
      CHECK(to == sum);
      Multiply(a.data(), b.data(), 4 * n, false, out.data());
      CHECK(out == product);
      to = sum;
      Multiply(a.data(), b.data(), 4 * n, true, to.data());
      for (size_t i = 0; i < 4 * n; ++i) REQUIRE(to[i] == sum[i] + product[i]);
      Relu(a.data(), 4 * n, out.data());
      CHECK(out == rectified);
      ReluGradient(View(rectified, 4, n), View(&gradient, 4, n), false, sums.data());
      CHECK(gradient == passed);
      CHECK(sums == columns);
      gradient = b;
      ReluGradient(View(rectified, 4, n), View(&gradient, 4, n), false, nullptr);
      CHECK(gradient == passed);
    });
  }
}

// Bags of up to 3 keys, or of one each, over a table of `rows` rows; what they borrow stays in it.
struct RandomBags {
  RandomBags(size_t count, uint32_t rows, bool single, bool weighted, uint64_t seed) {
    for (size_t r = 0; r < count; ++r) {
      const size_t keys = single ? 1 : HashCoordinates({seed, r}) % 4;
      for (size_t k = 0; k < keys; ++k) index.push_back(HashCoordinates({seed, r, k}) % rows);
      offsets.push_back(static_cast<uint32_t>(index.size()));
    }
    if (weighted) weights = RandomFloats(index.size(), seed + 1);
    bags = {count,        offsets.data(),
            index.data(), weighted ? weights.data() : nullptr,
            false,        !weighted && AreSingle(offsets.data(), count)};
  }
  std::vector<uint32_t> offsets = {0}, index;
  Floats weights;
  Bags bags;
};

TEST_CASE("Pooling and factorization: the same bits as plain loops with every instruction set", "[unit]") {
  constexpr size_t kCount = 37, kRows = 11, kSlots = 3;
  const bool single = GENERATE(false, true), weighted = GENERATE(false, true);
  for (size_t dim : {1, 3, 4, 8, 16, 17, 32, 40}) {
    CAPTURE(single, weighted, dim);
    std::vector<std::unique_ptr<RandomBags>> made;
    std::vector<Bags> slots;
    for (size_t s = 0; s < kSlots; ++s) {
      made.push_back(std::make_unique<RandomBags>(kCount, kRows, single, weighted, 10 + s));
      slots.push_back(made.back()->bags);
      REQUIRE(slots.back().single == (single && !weighted));
    }
    const Floats table = RandomFloats(kRows * dim, 1), dy = RandomFloats(kCount, 2);
    const Floats gradient = RandomFloats(kCount * dim, 3), before = RandomFloats(kRows * dim, 4);
    Floats pooled(kCount * dim, 0.5f), pooled_gradient = before, sums(kCount * dim, 0), squares(kCount * dim, 0);
    Floats factor_gradient = before;
    const auto visit = [&](const Bags& bags, size_t r, auto use) {
      for (uint32_t i = bags.offsets[r]; i < bags.offsets[r + 1]; ++i) {
        for (size_t d = 0; d < dim; ++d) {
          use(r * dim + d, bags.index[i] * dim + d, weighted ? bags.weights[i] : 1.0f);
        }
      }
    };
    for (size_t r = 0; r < kCount; ++r) {
      visit(slots[0], r, [&](size_t at, size_t row, float w) {
        pooled[at] += w * table[row];
        pooled_gradient[row] += w * gradient[at];
      });
      for (const Bags& bags : slots) {
        visit(bags, r, [&](size_t at, size_t row, float w) {
          const float value = w * table[row];
          sums[at] += value;
          squares[at] += value * value;
        });
      }
      for (const Bags& bags : slots) {
        visit(bags, r,
              [&](size_t at, size_t row, float w) { factor_gradient[row] += dy[r] * w * (sums[at] - w * table[row]); });
      }
    }
    AtEveryTarget([&] {
      Floats out(kCount * dim, 0.5f), to = before, sum(kCount * dim, NAN), square(kCount * dim, NAN);
      PoolBags(slots[0], table.data(), dim, dim, out.data());
      CHECK(out == pooled);
      PoolBagsGradient(slots[0], gradient.data(), dim, dim, to.data());
      CHECK(to == pooled_gradient);
      FactorizeBags(slots.data(), kSlots, table.data(), dim, sum.data(), square.data());
      CHECK(sum == sums);
      CHECK(square == squares);
      to = before;
      FactorizeBagsGradient(slots.data(), kSlots, table.data(), dim, sums.data(), dy.data(), to.data());
      CHECK(to == factor_gradient);
    });
  }
}

TEST_CASE("Rounding to bf16: to nearest, ties to even, infinities and NaN, with every instruction set", "[unit]") {
  const Floats values = {0.0f,     -0.0f,     1.0f,        0x1.01p0f,   0x1.03p0f, 0x1.010002p0f, -0x1.01p0f,
                         INFINITY, -INFINITY, 0x1.fep127f, 0x1.ffp127f, 0x1p-133f, 3.14159265f,   65504.0f};
  const Floats rounded = {0.0f,     -0.0f,     1.0f,        1.0f,     0x1.04p0f, 0x1.02p0f, -1.0f,
                          INFINITY, -INFINITY, 0x1.fep127f, INFINITY, 0x1p-133f, 3.140625f, 65536.0f};
  AtEveryTarget([&] {
    for (size_t begin = 0; begin < values.size(); ++begin) {
      const size_t n = values.size() - begin;
      Floats floats(n);
      std::vector<uint16_t> halves(n);
      RoundToBf16(values.data() + begin, n, floats.data());
      ToBf16(values.data() + begin, n, halves.data());
      for (size_t i = 0; i < n; ++i) {
        INFO(values[begin + i]);
        CHECK(floats[i] == rounded[begin + i]);
        CHECK(std::signbit(floats[i]) == std::signbit(rounded[begin + i]));
        uint32_t bits;
        std::memcpy(&bits, &floats[i], sizeof(bits));
        CHECK(halves[i] == bits >> 16);
      }
    }
    uint32_t bits = 0x7f800001;  // the NaN that carelessly rounded is an infinity
    float nan, out;
    std::memcpy(&nan, &bits, sizeof(nan));
    RoundToBf16(&nan, 1, &out);
    CHECK(std::isnan(out));
  });
}

}  // namespace
}  // namespace shoal::cpu
