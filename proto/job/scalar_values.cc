#include "proto/job/scalar_values.h"

#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/parse_units.h"
#include "base/status_macros.h"
#include "base/text_distance.h"

namespace shoal {
namespace {

using google::protobuf::EnumDescriptor;
using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// Error messages quote values; a hostile one could be megabytes.
std::string Quote(absl::string_view text) {
  constexpr size_t kMaxQuoted = 80;
  const bool cut = text.size() > kMaxQuoted;
  return absl::StrCat("\"", absl::Utf8SafeCHexEscape(text.substr(0, kMaxQuoted)), cut ? "..." : "", "\"");
}

template <typename Number>
std::string Shortest(Number value) {
  char buffer[64];
  const auto result = std::to_chars(buffer, buffer + sizeof(buffer), value);
  return std::string(buffer, result.ptr);
}

std::string BoundText(const FieldRule& rule, double bound) {
  if (rule.unit() == FieldRule::BYTES) return FormatBytes(static_cast<uint64_t>(bound));
  if (rule.unit() == FieldRule::DURATION_MS) return FormatDurationMs(static_cast<uint64_t>(bound));
  if (std::floor(bound) == bound && std::fabs(bound) < 1e15) return absl::StrFormat("%.0f", bound);
  return Shortest(bound);
}

absl::Status CheckBounds(const FieldRule& rule, double value, absl::string_view text) {
  if (rule.has_min() && rule.exclusive_min() && !(value > rule.min())) {
    return absl::InvalidArgumentError(absl::StrCat(text, " is too small: must be > ", BoundText(rule, rule.min())));
  }
  if (rule.has_min() && value < rule.min()) {
    return absl::InvalidArgumentError(absl::StrCat(text, " is too small: must be >= ", BoundText(rule, rule.min())));
  }
  if (rule.has_max() && value > rule.max()) {
    return absl::InvalidArgumentError(absl::StrCat(text, " is too large: must be <= ", BoundText(rule, rule.max())));
  }
  return absl::OkStatus();
}

bool IsWhole(absl::string_view text) {
  if (!text.empty() && text[0] == '-') text.remove_prefix(1);
  if (text.empty()) return false;
  for (const char c : text) {
    if (!absl::ascii_isdigit(c)) return false;
  }
  return true;
}

template <typename Integer>
absl::StatusOr<Integer> ParseInteger(const FieldRule& rule, absl::string_view text, bool quoted) {
  if (quoted || !IsWhole(text)) {
    return absl::InvalidArgumentError(absl::StrCat(Quote(text), " is not a whole number"));
  }
  Integer value = 0;
  const auto result = std::from_chars(text.data(), text.data() + text.size(), value);
  if (result.ec != std::errc() || result.ptr != text.data() + text.size()) {
    if (std::is_unsigned<Integer>::value && text[0] == '-') {
      return absl::InvalidArgumentError(
          absl::StrCat(text, " is too small: must be >= ", rule.has_min() ? BoundText(rule, rule.min()) : "0"));
    }
    return absl::InvalidArgumentError(
        absl::StrCat(text.substr(0, 40), " does not fit: must be <= ",
                     rule.has_max() ? BoundText(rule, rule.max()) : absl::StrCat(std::numeric_limits<Integer>::max())));
  }
  SHOAL_RETURN_IF_ERROR(CheckBounds(rule, static_cast<double>(value), text));
  return value;
}

absl::StatusOr<uint64_t> ParseUint64(const FieldRule& rule, absl::string_view text, bool quoted) {
  if (rule.unit() == FieldRule::NONE) return ParseInteger<uint64_t>(rule, text, quoted);
  absl::StatusOr<uint64_t> value = rule.unit() == FieldRule::BYTES ? ParseBytes(text) : ParseDurationMs(text);
  if (!value.ok()) return value.status();
  SHOAL_RETURN_IF_ERROR(CheckBounds(rule, static_cast<double>(*value), text));
  return *value;
}

// `Real` is float or double; bounds are checked on the decimal value, because 0.99 as a float lies above 0.99.
template <typename Real>
absl::StatusOr<Real> ParseReal(const FieldRule& rule, absl::string_view text, bool quoted) {
  double value = 0;
  if (quoted || text.empty() || absl::ascii_isspace(text.front()) || absl::ascii_isspace(text.back()) ||
      !absl::SimpleAtod(text, &value)) {
    return absl::InvalidArgumentError(absl::StrCat(Quote(text), " is not a number"));
  }
  if (!std::isfinite(value)) {
    return absl::InvalidArgumentError(absl::StrCat(Quote(text), " is not a finite number"));
  }
  SHOAL_RETURN_IF_ERROR(CheckBounds(rule, value, text));
  if (std::fabs(value) > static_cast<double>(std::numeric_limits<Real>::max())) {
    return absl::InvalidArgumentError(absl::StrCat(text, " does not fit a 32-bit floating point number"));
  }
  const Real result = static_cast<Real>(value);
  if (result == 0 && value != 0) {
    return absl::InvalidArgumentError(absl::StrCat(text, " is too small for a 32-bit floating point number"));
  }
  return result;
}

absl::StatusOr<bool> ParseBool(absl::string_view text, bool quoted) {
  if (!quoted && text == "true") return true;
  if (!quoted && text == "false") return false;
  return absl::InvalidArgumentError(absl::StrCat(Quote(text), " is not true or false"));
}

absl::StatusOr<const EnumValueDescriptor*> ParseEnum(const EnumDescriptor& type, absl::string_view text) {
  std::vector<std::string> names;
  for (int i = 0; i < type.value_count(); ++i) {
    if (type.value(i)->name() == "NONE") continue;
    names.push_back(absl::AsciiStrToLower(type.value(i)->name()));
    if (names.back() == text) return type.value(i);
  }
  const std::string nearest = NearestName(text, names);
  return absl::InvalidArgumentError(absl::StrCat(Quote(text), " is not one of ", absl::StrJoin(names, ", "),
                                                 nearest.empty() ? "" : "; did you mean ", nearest,
                                                 nearest.empty() ? "" : "?"));
}

// Number of bytes of the UTF-8 character at the start of `text`; 0: not valid (also overlong forms and surrogates).
size_t Utf8Length(absl::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  const size_t length = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
  }
  if (first == 0xe0 && byte(1) < 0xa0) return 0;
  if (first == 0xed && byte(1) > 0x9f) return 0;
  if (first == 0xf0 && byte(1) < 0x90) return 0;
  if (first == 0xf4 && byte(1) > 0x8f) return 0;
  return length;
}

absl::Status CheckText(const FieldRule& rule, absl::string_view text) {
  if (rule.required() && text.empty()) return absl::InvalidArgumentError("must not be empty");
  for (absl::string_view rest = text; !rest.empty();) {
    const size_t length = Utf8Length(rest);
    if (length == 0)
      return absl::InvalidArgumentError(
          absl::StrCat("\"", absl::CHexEscape(text.substr(0, 80)), "\" is not valid UTF-8"));
    rest.remove_prefix(length);
  }
  return absl::OkStatus();
}

}  // namespace

const FieldRule& RuleOf(const FieldDescriptor& field) { return field.options().GetExtension(rule); }

absl::Status SetScalar(const FieldDescriptor& field, absl::string_view text, bool quoted, Message* message) {
  const Reflection& reflection = *message->GetReflection();
  const FieldRule& field_rule = RuleOf(field);
  const bool add = field.is_repeated();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32: {
      SHOAL_ASSIGN_OR_RETURN(const int32_t value, ParseInteger<int32_t>(field_rule, text, quoted));
      add ? reflection.AddInt32(message, &field, value) : reflection.SetInt32(message, &field, value);
      break;
    }
    case FieldDescriptor::CPPTYPE_UINT32: {
      SHOAL_ASSIGN_OR_RETURN(const uint32_t value, ParseInteger<uint32_t>(field_rule, text, quoted));
      add ? reflection.AddUInt32(message, &field, value) : reflection.SetUInt32(message, &field, value);
      break;
    }
    case FieldDescriptor::CPPTYPE_UINT64: {
      SHOAL_ASSIGN_OR_RETURN(const uint64_t value, ParseUint64(field_rule, text, quoted));
      add ? reflection.AddUInt64(message, &field, value) : reflection.SetUInt64(message, &field, value);
      break;
    }
    case FieldDescriptor::CPPTYPE_FLOAT: {
      SHOAL_ASSIGN_OR_RETURN(const float value, ParseReal<float>(field_rule, text, quoted));
      add ? reflection.AddFloat(message, &field, value) : reflection.SetFloat(message, &field, value);
      break;
    }
    case FieldDescriptor::CPPTYPE_DOUBLE: {
      SHOAL_ASSIGN_OR_RETURN(const double value, ParseReal<double>(field_rule, text, quoted));
      add ? reflection.AddDouble(message, &field, value) : reflection.SetDouble(message, &field, value);
      break;
    }
    case FieldDescriptor::CPPTYPE_BOOL: {
      SHOAL_ASSIGN_OR_RETURN(const bool value, ParseBool(text, quoted));
      add ? reflection.AddBool(message, &field, value) : reflection.SetBool(message, &field, value);
      break;
    }
    case FieldDescriptor::CPPTYPE_ENUM: {
      SHOAL_ASSIGN_OR_RETURN(const EnumValueDescriptor* value, ParseEnum(*field.enum_type(), text));
      add ? reflection.AddEnum(message, &field, value) : reflection.SetEnum(message, &field, value);
      break;
    }
    case FieldDescriptor::CPPTYPE_STRING: {
      SHOAL_RETURN_IF_ERROR(CheckText(field_rule, text));
      const std::string value(text);
      add ? reflection.AddString(message, &field, value) : reflection.SetString(message, &field, value);
      break;
    }
    default:
      return absl::InternalError(absl::StrCat(field.full_name(), " has a type that job files cannot hold"));
  }
  return absl::OkStatus();
}

std::string ScalarAsYaml(const FieldDescriptor& field, const Message& message, int index) {
  const Reflection& r = *message.GetReflection();
  const bool at = field.is_repeated();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return absl::StrCat(at ? r.GetRepeatedInt32(message, &field, index) : r.GetInt32(message, &field));
    case FieldDescriptor::CPPTYPE_UINT32:
      return absl::StrCat(at ? r.GetRepeatedUInt32(message, &field, index) : r.GetUInt32(message, &field));
    case FieldDescriptor::CPPTYPE_UINT64: {
      const uint64_t value = at ? r.GetRepeatedUInt64(message, &field, index) : r.GetUInt64(message, &field);
      if (RuleOf(field).unit() == FieldRule::BYTES) return FormatBytes(value);
      if (RuleOf(field).unit() == FieldRule::DURATION_MS) return FormatDurationMs(value);
      return absl::StrCat(value);
    }
    case FieldDescriptor::CPPTYPE_FLOAT:
      return Shortest(at ? r.GetRepeatedFloat(message, &field, index) : r.GetFloat(message, &field));
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return Shortest(at ? r.GetRepeatedDouble(message, &field, index) : r.GetDouble(message, &field));
    case FieldDescriptor::CPPTYPE_BOOL:
      return (at ? r.GetRepeatedBool(message, &field, index) : r.GetBool(message, &field)) ? "true" : "false";
    case FieldDescriptor::CPPTYPE_ENUM:
      return absl::AsciiStrToLower(
          (at ? r.GetRepeatedEnum(message, &field, index) : r.GetEnum(message, &field))->name());
    default:
      return QuoteYaml(at ? r.GetRepeatedString(message, &field, index) : r.GetString(message, &field));
  }
}

bool IsZero(const FieldDescriptor& field, const Message& message) {
  // Fields of proto3 without presence are "set" exactly when they are not zero.
  return !message.GetReflection()->HasField(message, &field);
}

std::string EnumChoices(const EnumDescriptor& type) {
  std::vector<std::string> names;
  for (int i = 0; i < type.value_count(); ++i) {
    if (type.value(i)->name() != "NONE") names.push_back(absl::AsciiStrToLower(type.value(i)->name()));
  }
  return absl::StrJoin(names, ", ");
}

std::string QuoteYaml(absl::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      absl::StrAppend(&quoted, "\\", absl::string_view(&c, 1));
    } else if (c == '\t') {
      quoted += "\\t";
    } else if (c == '\n') {
      quoted += "\\n";
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      absl::StrAppendFormat(&quoted, "\\x%02x", static_cast<unsigned char>(c));
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

}  // namespace shoal
