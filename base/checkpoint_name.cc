#include "base/checkpoint_name.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"

namespace shoal {
namespace {

constexpr char kPrefix[] = "ckpt-";

}  // namespace

std::string CheckpointName(uint64_t number) { return absl::StrFormat("%s%08d", kPrefix, number); }

absl::optional<uint64_t> CheckpointNumber(absl::string_view name) {
  uint64_t number = 0;
  if (!absl::ConsumePrefix(&name, kPrefix) || !std::all_of(name.begin(), name.end(), absl::ascii_isdigit) ||
      !absl::SimpleAtoi(name, &number) || number > kLastCheckpoint) {
    return absl::nullopt;
  }
  return number;
}

}  // namespace shoal
