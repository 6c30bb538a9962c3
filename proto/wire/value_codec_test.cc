#include "proto/wire/value_codec.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/random.h"

namespace shoal {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

float Decoded(ValueType type, uint16_t half) {
  float value;
  DecodeValues(type, &half, 1, &value);
  return value;
}

uint16_t Encoded(ValueType type, float value) {
  uint16_t half;
  EncodeValues(type, &value, 1, &half);
  return half;
}

// All finite values that are not negative, in order; the index is the encoding.
std::vector<float> Ladder(ValueType type) {
  std::vector<float> out;
  for (uint32_t half = 0; half < 0x8000; ++half) {
    const float value = Decoded(type, static_cast<uint16_t>(half));
    if (!std::isfinite(value)) break;
    out.push_back(value);
  }
  return out;
}

TEST_CASE("Values: halves are what their formats say", "[wire][unit]") {
  CHECK(Decoded(ValueType::kBf16, 0x3f80) == 1);
  CHECK(Decoded(ValueType::kBf16, 0xc040) == -3);
  CHECK(Decoded(ValueType::kF16, 0x3c00) == 1);
  CHECK(Decoded(ValueType::kF16, 0xc200) == -3);
  CHECK(Decoded(ValueType::kF16, 0x7bff) == 65504);
  CHECK(Decoded(ValueType::kF16, 0x0400) == 0x1p-14f);
  CHECK(Decoded(ValueType::kF16, 0x0001) == 0x1p-24f);
  CHECK(Decoded(ValueType::kF16, 0x83ff) == -1023 * 0x1p-24f);
  for (const ValueType type : {ValueType::kBf16, ValueType::kF16}) {
    const std::vector<float> ladder = Ladder(type);
    CHECK(std::is_sorted(ladder.begin(), ladder.end()));
    CHECK(ladder.size() == (type == ValueType::kF16 ? 0x7c00u : 0x7f80u));
    // Every half comes back as it was, with its sign.
    for (uint32_t half = 0; half < ladder.size(); ++half) {
      for (uint32_t sign : {0u, 0x8000u}) {
        const auto whole = static_cast<uint16_t>(half | sign);
        if (Encoded(type, Decoded(type, whole)) != whole) FAIL(half);
      }
    }
  }
}

TEST_CASE("Values: rounded to the nearest, ties to even, never beyond the largest", "[wire][unit]") {
  const ValueType type = GENERATE(ValueType::kBf16, ValueType::kF16);
  const std::vector<float> ladder = Ladder(type);
  const auto check = [&](float value) {
    const uint16_t half = Encoded(type, value);
    const float size = std::abs(value);
    // The two neighbours; double holds their middle exactly.
    const auto above = static_cast<size_t>(std::lower_bound(ladder.begin(), ladder.end(), size) - ladder.begin());
    size_t expected = above;
    if (above == ladder.size()) {
      expected = ladder.size() - 1;
    } else if (ladder[above] != size) {
      const double up = double{ladder[above]} - size, down = double{size} - ladder[above - 1];
      if (down < up || (down == up && (above - 1) % 2 == 0)) expected = above - 1;
    }
    if (half != (expected | (std::signbit(value) ? 0x8000u : 0u))) FAIL(value << " " << half << " " << expected);
  };
  for (size_t i = 0; i + 1 < ladder.size(); ++i) {
    const float middle = static_cast<float>((double{ladder[i]} + ladder[i + 1]) / 2);
    for (float value : {middle, std::nextafter(middle, 0.0f), std::nextafter(middle, kInfinity)}) {
      check(value);
      check(-value);
    }
  }
  Random random({5});
  for (int i = 0; i < 200'000; ++i) {
    const auto bits = static_cast<uint32_t>(random.Next());
    float value;
    std::memcpy(&value, &bits, sizeof value);
    if (std::isfinite(value)) check(value);
  }
  for (float value : {0.0f, 1e38f, 65504.0f, 65519.0f, 65520.0f, 1e5f, std::numeric_limits<float>::max(),
                      std::numeric_limits<float>::min(), std::numeric_limits<float>::denorm_min()}) {
    check(value);
    check(-value);
  }
  CHECK(Decoded(type, Encoded(type, kInfinity)) == kInfinity);
  CHECK(Decoded(type, Encoded(type, -kInfinity)) == -kInfinity);
  CHECK(std::isnan(Decoded(type, Encoded(type, std::numeric_limits<float>::quiet_NaN()))));
  CHECK(std::isnan(Decoded(type, Encoded(type, -std::numeric_limits<float>::signaling_NaN()))));
}

TEST_CASE("Values: arrays of any length at any address; rounding is what a trip over the wire does", "[wire][unit]") {
  const ValueType type = GENERATE(ValueType::kF32, ValueType::kBf16, ValueType::kF16);
  Random random({6});
  for (const size_t n : {0, 1, 3, 17, 40, 511, 512, 513, 2000}) {
    std::vector<float> values(n);
    for (float& value : values) value = static_cast<float>(random.Normal() * std::exp2(random.Normal() * 12));
    std::vector<uint8_t> bytes(n * ValueBytes(type) + 1);
    EncodeValues(type, values.data(), n, bytes.data() + 1);
    std::vector<float> back(n), rounded = values;
    DecodeValues(type, bytes.data() + 1, n, back.data());
    RoundValues(type, rounded.data(), n);
    CHECK(back == rounded);
    std::vector<float> twice = rounded;
    RoundValues(type, twice.data(), n);
    CHECK(twice == rounded);
    if (type == ValueType::kF32) CHECK(back == values);
  }
}

}  // namespace
}  // namespace shoal
