#include "base/parse_units.h"

#include <cstddef>
#include <limits>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace shoal {
namespace {

struct Unit {
  absl::string_view name;
  uint64_t factor;
};

constexpr Unit kDurationUnits[] = {{"d", 86400000}, {"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}};
constexpr Unit kByteUnits[] = {{"", 1},
                               {"B", 1},
                               {"KB", 1000},
                               {"kB", 1000},
                               {"MB", 1000000},
                               {"GB", 1000000000},
                               {"TB", 1000000000000},
                               {"KiB", uint64_t{1} << 10},
                               {"MiB", uint64_t{1} << 20},
                               {"GiB", uint64_t{1} << 30},
                               {"TiB", uint64_t{1} << 40}};

constexpr uint64_t kMaxUint64 = std::numeric_limits<uint64_t>::max();

absl::Status NotADuration(absl::string_view text) {
  return absl::InvalidArgumentError(
      absl::StrCat("\"", text, "\" is not a duration; write it like 60s, 1m30s or 500ms (units d, h, m, s, ms)"));
}

absl::Status NotASize(absl::string_view text) {
  return absl::InvalidArgumentError(absl::StrCat(
      "\"", text,
      "\" is not a number of bytes; write it like 65536, 64KiB, 4MiB or 1GB (units B, KB to TB, KiB to TiB)"));
}

absl::Status TooLarge(absl::string_view text) {
  return absl::InvalidArgumentError(absl::StrCat("\"", text, "\" is too large: it must be below 2^64"));
}

// Cuts the leading digits off *text.
absl::string_view TakeDigits(absl::string_view* text) {
  size_t length = 0;
  while (length < text->size() && absl::ascii_isdigit((*text)[length])) ++length;
  const absl::string_view digits = text->substr(0, length);
  text->remove_prefix(length);
  return digits;
}

// Cuts the leading letters off *text.
absl::string_view TakeLetters(absl::string_view* text) {
  size_t length = 0;
  while (length < text->size() && absl::ascii_isalpha((*text)[length])) ++length;
  const absl::string_view letters = text->substr(0, length);
  text->remove_prefix(length);
  return letters;
}

}  // namespace

absl::StatusOr<uint64_t> ParseDurationMs(absl::string_view text) {
  absl::string_view rest = text;
  uint64_t total = 0;
  size_t next_unit = 0;  // units must come in descending order
  do {
    const absl::string_view digits = TakeDigits(&rest);
    const absl::string_view name = TakeLetters(&rest);
    if (digits.empty() || name.empty()) return NotADuration(text);
    while (next_unit < std::size(kDurationUnits) && kDurationUnits[next_unit].name != name) ++next_unit;
    if (next_unit == std::size(kDurationUnits)) return NotADuration(text);
    const uint64_t factor = kDurationUnits[next_unit++].factor;
    uint64_t count = 0;
    if (!absl::SimpleAtoi(digits, &count) || count > (kMaxUint64 - total) / factor) return TooLarge(text);
    total += count * factor;
  } while (!rest.empty());
  return total;
}

absl::StatusOr<uint64_t> ParseBytes(absl::string_view text) {
  absl::string_view rest = text;
  const absl::string_view digits = TakeDigits(&rest);
  if (digits.empty()) return NotASize(text);
  for (const Unit& unit : kByteUnits) {
    if (unit.name != rest) continue;
    uint64_t count = 0;
    if (!absl::SimpleAtoi(digits, &count) || count > kMaxUint64 / unit.factor) return TooLarge(text);
    return count * unit.factor;
  }
  return NotASize(text);
}

std::string FormatDurationMs(uint64_t duration_ms) {
  return duration_ms % 1000 == 0 ? absl::StrCat(duration_ms / 1000, "s") : absl::StrCat(duration_ms, "ms");
}

std::string FormatBytes(uint64_t bytes) {
  constexpr absl::string_view kNames[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t power = 0;
  while (bytes != 0 && power + 1 < std::size(kNames) && bytes % 1024 == 0) {
    bytes /= 1024;
    ++power;
  }
  return absl::StrCat(bytes, kNames[power]);
}

}  // namespace shoal
