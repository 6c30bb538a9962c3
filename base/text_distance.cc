#include "base/text_distance.h"

#include <algorithm>
#include <vector>

namespace shoal {
namespace {

// Longer texts are no typing errors of a name, and the distance takes time in proportion to the product of lengths.
constexpr size_t kMaxNameLength = 128;

}  // namespace

size_t TextDistance(absl::string_view a, absl::string_view b) {
  // Rows i-2, i-1 and i of the dynamic program (optimal string alignment).
  std::vector<size_t> before(b.size() + 1), previous(b.size() + 1), current(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) previous[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    current[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = previous[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      current[j] = std::min({previous[j] + 1, current[j - 1] + 1, replaced});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        current[j] = std::min(current[j], before[j - 2] + 1);
      }
    }
    before.swap(previous);
    previous.swap(current);
  }
  return previous[b.size()];
}

std::string NearestName(absl::string_view name, absl::Span<const std::string> candidates) {
  if (name.size() > kMaxNameLength) return "";
  const size_t limit = std::max<size_t>(1, (name.size() + 1) / 3);
  size_t best = limit + 1;
  std::string nearest;
  for (const std::string& candidate : candidates) {
    const size_t distance = TextDistance(name, candidate);
    if (distance < best && distance < candidate.size()) {
      best = distance;
      nearest = candidate;
    }
  }
  return nearest;
}

}  // namespace shoal
