#include "proto/wire/value_codec.h"

#include <algorithm>
#include <cstring>

namespace shoal {
namespace {

constexpr uint32_t kInfinity = 0x7f800000;
// Values at a time: the loops work on aligned arrays in the first cache.
constexpr size_t kBlock = 512;

uint32_t BitsOf(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}

float FromBits(uint32_t bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

// The loops below have no branches, so that the compiler makes vector code of them.
struct Bf16 {
  static uint16_t Encode(float value) {
    const uint32_t bits = BitsOf(value), sign = bits & 0x80000000u, size = bits ^ sign;
    const uint32_t rounded = (size + 0x7fff + ((size >> 16) & 1)) >> 16;
    const uint32_t finite = std::min<uint32_t>(rounded, 0x7f7f);
    const uint32_t special = size > kInfinity ? 0x7fc0 : 0x7f80;
    return static_cast<uint16_t>((sign >> 16) | (size < kInfinity ? finite : special));
  }
  static float Decode(uint16_t half) { return FromBits(uint32_t{half} << 16); }
};

struct F16 {
  static uint16_t Encode(float value) {
    constexpr uint32_t kLargest = 0x477fe000;         // 65504
    constexpr uint32_t kSmallestNormal = 0x38800000;  // 2^-14
    constexpr uint32_t kHalf = 0x3f000000;            // 0.5: its last bit stands for 2^-24, the smallest f16
    const uint32_t bits = BitsOf(value), sign = bits & 0x80000000u, size = bits ^ sign;
    const uint32_t subnormal = BitsOf(FromBits(std::min(size, kSmallestNormal)) + FromBits(kHalf)) - kHalf;
    const uint32_t capped = std::min(size, kLargest);
    // The exponent's bias falls from 127 to 15; 0xfff and the lowest bit that stays round to nearest, ties to even.
    const uint32_t normal = (capped - (uint32_t{112} << 23) + 0xfff + ((capped >> 13) & 1)) >> 13;
    const uint32_t special = size > kInfinity ? 0x7e00 : 0x7c00;
    const uint32_t finite = size < kSmallestNormal ? subnormal : normal;
    return static_cast<uint16_t>((sign >> 16) | (size < kInfinity ? finite : special));
  }
  static float Decode(uint16_t half) {
    constexpr uint32_t kExponent = uint32_t{0x7c00} << 13;
    const uint32_t sign = (uint32_t{half} & 0x8000) << 16, rest = (uint32_t{half} & 0x7fff) << 13;
    const uint32_t exponent = rest & kExponent;
    const uint32_t normal = rest + (uint32_t{112} << 23);
    const uint32_t special = rest + (uint32_t{224} << 23);
    // An f16 below 2^-14 is a whole number of 2^-24.
    const uint32_t subnormal = BitsOf(static_cast<float>(half & 0x3ff) * 0x1p-24f);
    return FromBits(sign | (exponent == 0 ? subnormal : exponent == kExponent ? special : normal));
  }
};

template <typename Half>
void Encode(const float* from, size_t n, uint8_t* to) {
  uint16_t block[kBlock];
  for (; n > 0;) {
    const size_t some = std::min(n, kBlock);
    for (size_t i = 0; i < some; ++i) block[i] = Half::Encode(from[i]);
    std::memcpy(to, block, some * sizeof(uint16_t));
    from += some;
    to += some * sizeof(uint16_t);
    n -= some;
  }
}

template <typename Half>
void Decode(const uint8_t* from, size_t n, float* to) {
  uint16_t block[kBlock];
  for (; n > 0;) {
    const size_t some = std::min(n, kBlock);
    std::memcpy(block, from, some * sizeof(uint16_t));
    for (size_t i = 0; i < some; ++i) to[i] = Half::Decode(block[i]);
    from += some * sizeof(uint16_t);
    to += some;
    n -= some;
  }
}

}  // namespace

void EncodeValues(ValueType type, const float* from, size_t n, void* to) {
  if (n == 0) return;
  auto* const out = static_cast<uint8_t*>(to);
  switch (type) {
    case ValueType::kF32:
      std::memcpy(out, from, n * sizeof(float));
      break;
    case ValueType::kBf16:
      Encode<Bf16>(from, n, out);
      break;
    case ValueType::kF16:
      Encode<F16>(from, n, out);
      break;
  }
}

void DecodeValues(ValueType type, const void* from, size_t n, float* to) {
  if (n == 0) return;
  const auto* const in = static_cast<const uint8_t*>(from);
  switch (type) {
    case ValueType::kF32:
      std::memcpy(to, in, n * sizeof(float));
      break;
    case ValueType::kBf16:
      Decode<Bf16>(in, n, to);
      break;
    case ValueType::kF16:
      Decode<F16>(in, n, to);
      break;
  }
}

void RoundValues(ValueType type, float* values, size_t n) {
  if (type == ValueType::kBf16) {
    for (size_t i = 0; i < n; ++i) values[i] = Bf16::Decode(Bf16::Encode(values[i]));
  } else if (type == ValueType::kF16) {
    for (size_t i = 0; i < n; ++i) values[i] = F16::Decode(F16::Encode(values[i]));
  }
}

}  // namespace shoal
