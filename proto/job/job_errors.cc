#include "proto/job/job_errors.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace shoal {
namespace {

// Nobody reads more, and a hostile file could hold hundreds of thousands.
constexpr size_t kMaxErrors = 100;

bool Contains(absl::string_view outer, absl::string_view inner) {
  if (outer.empty() || outer == inner) return true;
  return inner.size() > outer.size() && absl::StartsWith(inner, outer) && inner[outer.size()] == '.';
}

}  // namespace

void JobErrors::Add(const YamlPosition& position, absl::string_view path, absl::string_view message) {
  if (errors_.size() > kMaxErrors) return;
  if (errors_.size() == kMaxErrors) {
    // At the end of the file's errors whatever their lines.
    errors_.push_back({{1 << 30, 0, 0}, "", absl::StrCat(file_name_, ": more than ", kMaxErrors, " errors")});
    return;
  }
  std::string text = position.override_index < 0
                         ? absl::StrCat(file_name_, ":", position.line, ":", position.column, ": ")
                         : absl::StrCat("--set ", overrides_[position.override_index], ": ");
  if (!path.empty()) absl::StrAppend(&text, path, ": ");
  absl::StrAppend(&text, message);
  errors_.push_back({position, std::string(path), std::move(text)});
}

bool JobErrors::Concerns(absl::string_view path) const {
  return std::any_of(errors_.begin(), errors_.end(),
                     [&](const Error& error) { return Contains(error.path, path) || Contains(path, error.path); });
}

std::string JobErrors::Describe(const YamlPosition& position) const {
  return position.override_index < 0 ? absl::StrCat("line ", position.line)
                                     : absl::StrCat("--set ", overrides_[position.override_index]);
}

absl::Status JobErrors::ToStatus() const {
  std::vector<Error> sorted = errors_;
  std::stable_sort(sorted.begin(), sorted.end(), [](const Error& a, const Error& b) {
    return std::tie(a.position.override_index, a.position.line, a.position.column) <
           std::tie(b.position.override_index, b.position.line, b.position.column);
  });
  std::string message;
  for (const Error& error : sorted) absl::StrAppend(&message, message.empty() ? "" : "\n", error.text);
  return absl::InvalidArgumentError(message);
}

}  // namespace shoal
