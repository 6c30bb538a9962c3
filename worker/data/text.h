// Small pieces of text parsing that the readers share. Nothing here allocates on the good path.
#ifndef SHOAL_WORKER_DATA_TEXT_H_
#define SHOAL_WORKER_DATA_TEXT_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace shoal {

// Spaces and tabs at both ends removed.
inline absl::string_view Trim(absl::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// The whole text as a decimal number; a leading '+' is fine, blanks are not. "nan" and "inf" parse: callers that want
// finite numbers check. A number too small for a double is 0, one too large is infinite.
bool ParseNumber(absl::string_view text, double* value);

// ParseNumber, and finite as a float.
bool ParseFiniteFloat(absl::string_view text, float* value);

// The whole text as a decimal integer in [INT64_MIN, INT64_MAX]; a leading '+' is fine.
bool ParseInteger(absl::string_view text, int64_t* value);
bool ParseUnsigned(absl::string_view text, uint64_t* value);

// `value` for a message: control characters escaped, cut after 64 bytes.
std::string Quoted(absl::string_view value);
// What a message about a row without any delimiter asks: `field` is the setting.
std::string DelimiterAdvice(absl::string_view field, char delimiter);

}  // namespace shoal

#endif  // SHOAL_WORKER_DATA_TEXT_H_
