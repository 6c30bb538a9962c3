// ResolvedYaml and JobDigest.
#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/hash.h"
#include "proto/job/job_file.h"
#include "proto/job/scalar_values.h"

namespace shoal {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

constexpr int kIndent = 2;

// A zero is printed where leaving it out would mean something else: a default or an error.
bool IsPrinted(const FieldDescriptor& field, const Message& message) {
  if (field.is_repeated()) return message.GetReflection()->FieldSize(message, &field) > 0;
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) return message.GetReflection()->HasField(message, &field);
  const FieldRule& field_rule = RuleOf(field);
  if (field_rule.not_yet()) return false;
  return field_rule.required() || !field_rule.default_value().empty() || !IsZero(field, message);
}

void AppendMessage(const Message& message, int indent, bool first_line_open, std::string* yaml);

void AppendList(const FieldDescriptor& field, const Message& message, int indent, std::string* yaml) {
  const Reflection& reflection = *message.GetReflection();
  const int size = reflection.FieldSize(message, &field);
  if (field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
    *yaml += " [";
    for (int i = 0; i < size; ++i) absl::StrAppend(yaml, i == 0 ? "" : ", ", ScalarAsYaml(field, message, i));
    *yaml += "]\n";
    return;
  }
  *yaml += "\n";
  for (int i = 0; i < size; ++i) {
    absl::StrAppend(yaml, std::string(indent + kIndent, ' '), "- ");
    AppendMessage(reflection.GetRepeatedMessage(message, &field, i), indent + 2 * kIndent, /*first_line_open=*/true,
                  yaml);
  }
}

// `first_line_open`: the first key continues the line ("- path: ..."), the others are indented.
void AppendMessage(const Message& message, int indent, bool first_line_open, std::string* yaml) {
  const google::protobuf::Descriptor& type = *message.GetDescriptor();
  bool empty = true;
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    if (!IsPrinted(field, message)) continue;
    if (empty && !first_line_open && indent > 0) *yaml += "\n";
    if (!empty || !first_line_open) yaml->append(indent, ' ');
    empty = false;
    absl::StrAppend(yaml, field.name(), ":");
    if (field.is_repeated()) {
      AppendList(field, message, indent, yaml);
    } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      AppendMessage(message.GetReflection()->GetMessage(message, &field), indent + kIndent, /*first_line_open=*/false,
                    yaml);
    } else {
      absl::StrAppend(yaml, " ", ScalarAsYaml(field, message, -1), "\n");
    }
  }
  if (empty) *yaml += first_line_open ? "{}\n" : " {}\n";
}

}  // namespace

std::string ResolvedYaml(const Job& job) {
  std::string yaml;
  AppendMessage(job, 0, /*first_line_open=*/false, &yaml);
  return yaml;
}

std::string JobDigest(const Job& job) {
  const std::string yaml = ResolvedYaml(job);
  return absl::StrFormat("%016x%016x", HashBytes(yaml, 0), HashBytes(yaml, 1));
}

}  // namespace shoal
