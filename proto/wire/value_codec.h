// Values as they travel: f32 as it is, or half as many bytes with less precision.
#ifndef SHOAL_PROTO_WIRE_VALUE_CODEC_H_
#define SHOAL_PROTO_WIRE_VALUE_CODEC_H_

#include <cstddef>
#include <cstdint>

#include "proto/wire/parameter_messages.h"

namespace shoal {

inline constexpr size_t ValueBytes(ValueType type) {
  return type == ValueType::kF32 ? sizeof(float) : sizeof(uint16_t);
}

// Rounds to the nearest value of the type, ties to even. A finite value beyond the type's range becomes its largest
// finite one; infinities stay and NaN stays NaN, for whoever guards against them. f16 has 5 bits of exponent: beyond
// 65504, and below 6e-8 zero. `to` may have any alignment. Functions of their arguments only, on every machine the
// same.
void EncodeValues(ValueType type, const float* from, size_t n, void* to);
// Exact. `from` may have any alignment.
void DecodeValues(ValueType type, const void* from, size_t n, float* to);
// What EncodeValues and DecodeValues make of the values. Doing it twice is doing it once.
void RoundValues(ValueType type, float* values, size_t n);

}  // namespace shoal

#endif  // SHOAL_PROTO_WIRE_VALUE_CODEC_H_
