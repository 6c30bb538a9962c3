// Durations and byte counts as people write them: "60s", "1m30s", "500ms"; "4MiB", "1GB", "65536".
#ifndef SHOAL_BASE_PARSE_UNITS_H_
#define SHOAL_BASE_PARSE_UNITS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace shoal {

// Whole numbers with the units d, h, m, s, ms, each at most once and in this order. A number without a unit is refused.
// INVALID_ARGUMENT quotes the text and says what would have been right.
absl::StatusOr<uint64_t> ParseDurationMs(absl::string_view text);

// A whole number of bytes, or one followed by B, KB, MB, GB, TB (powers of 1000) or KiB, MiB, GiB, TiB (of 1024).
absl::StatusOr<uint64_t> ParseBytes(absl::string_view text);

// "60s", or "1500ms" where it is not whole seconds; ParseDurationMs gives the same number again.
std::string FormatDurationMs(uint64_t duration_ms);

// In the largest binary unit that divides it ("4MiB", "1000B"); ParseBytes gives the same number again.
std::string FormatBytes(uint64_t bytes);

}  // namespace shoal

#endif  // SHOAL_BASE_PARSE_UNITS_H_
