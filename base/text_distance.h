// "Did you mean ...?": the nearest of a few known names.
#ifndef SHOAL_BASE_TEXT_DISTANCE_H_
#define SHOAL_BASE_TEXT_DISTANCE_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace shoal {

// Number of inserted, deleted, replaced or swapped neighbouring characters that turn `a` into `b`.
size_t TextDistance(absl::string_view a, absl::string_view b);

// The candidate nearest to `name` when it is near enough to be a typing error (a third of the name's characters, at
// least one change, and fewer changes than the candidate has characters), else "". The first of equally near ones.
std::string NearestName(absl::string_view name, absl::Span<const std::string> candidates);

}  // namespace shoal

#endif  // SHOAL_BASE_TEXT_DISTANCE_H_
