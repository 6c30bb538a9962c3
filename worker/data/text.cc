#include "worker/data/text.h"

#include <charconv>
#include <cmath>
#include <cstdlib>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace shoal {
namespace {

// "+5" is accepted, "+-5" and "+" are not.
absl::string_view DropPlus(absl::string_view text) {
  if (text.size() > 1 && text.front() == '+' && text[1] != '-') text.remove_prefix(1);
  return text;
}

template <typename Number>
bool ParseWhole(absl::string_view text, Number* value) {
  text = DropPlus(text);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size() && !text.empty();
}

}  // namespace

bool ParseNumber(absl::string_view text, double* value) {
  // Most values in libsvm files are "1".
  if (text.size() == 1 && text[0] >= '0' && text[0] <= '9') {
    *value = text[0] - '0';
    return true;
  }
  text = DropPlus(text);
  if (text.empty()) return false;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  if (end != text.data() + text.size() || error == std::errc::invalid_argument) return false;
  if (error == std::errc::result_out_of_range) *value = std::strtod(std::string(text).c_str(), nullptr);
  return true;
}

bool ParseFiniteFloat(absl::string_view text, float* value) {
  double number;
  if (!ParseNumber(text, &number)) return false;
  *value = static_cast<float>(number);
  return std::isfinite(*value);
}

bool ParseInteger(absl::string_view text, int64_t* value) { return ParseWhole(text, value); }
bool ParseUnsigned(absl::string_view text, uint64_t* value) { return ParseWhole(text, value); }

std::string Quoted(absl::string_view value) {
  constexpr size_t kMaxBytes = 64;  // a message is read by a person
  std::string text = absl::CHexEscape(value.substr(0, kMaxBytes));
  return absl::StrCat("\"", text, value.size() > kMaxBytes ? "...\"" : "\"");
}

std::string DelimiterAdvice(absl::string_view field, char delimiter) {
  return absl::StrCat("is ", field, ", now ", Quoted(absl::string_view(&delimiter, 1)), ", the right one?");
}

}  // namespace shoal
