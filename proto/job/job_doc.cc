#include "proto/job/job_doc.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "base/parse_units.h"
#include "proto/job.pb.h"
#include "proto/job/job_doc_intro.h"
#include "proto/job/job_schema.h"
#include "proto/job/scalar_values.h"

namespace shoal {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;

// Comment of each element, by its path in the file descriptor.
using Comments = std::map<std::vector<int>, std::string>;

Comments CommentsOf(const google::protobuf::FileDescriptorProto& file) {
  Comments comments;
  for (const auto& location : file.source_code_info().location()) {
    std::string text = location.leading_comments();
    if (text.empty()) text = location.trailing_comments();
    // One line of markdown; the comments' own line breaks mean nothing.
    text = absl::StrReplaceAll(text, {{"\n", " "}});
    absl::StripAsciiWhitespace(&text);
    while (absl::StrReplaceAll({{"  ", " "}}, &text) > 0) {
    }
    comments[{location.path().begin(), location.path().end()}] = text;
  }
  return comments;
}

// Paths as descriptor.proto numbers them (SourceCodeInfo.Location.path).
std::vector<int> PathOf(const Descriptor& type) {
  using google::protobuf::DescriptorProto;
  using google::protobuf::FileDescriptorProto;
  if (type.containing_type() == nullptr) return {FileDescriptorProto::kMessageTypeFieldNumber, type.index()};
  std::vector<int> path = PathOf(*type.containing_type());
  path.insert(path.end(), {DescriptorProto::kNestedTypeFieldNumber, type.index()});
  return path;
}

std::vector<int> PathOf(const FieldDescriptor& field) {
  std::vector<int> path = PathOf(*field.containing_type());
  path.insert(path.end(), {google::protobuf::DescriptorProto::kFieldFieldNumber, field.index()});
  return path;
}

// REQUIRES: the enum is defined inside a message, as all of a job file's are.
std::vector<int> PathOf(const google::protobuf::EnumValueDescriptor& value) {
  std::vector<int> path = PathOf(*value.type()->containing_type());
  path.insert(path.end(), {google::protobuf::DescriptorProto::kEnumTypeFieldNumber, value.type()->index(),
                           google::protobuf::EnumDescriptorProto::kValueFieldNumber, value.index()});
  return path;
}

template <typename Element>
std::string CommentOf(const Comments& comments, const Element& element) {
  const auto found = comments.find(PathOf(element));
  return found == comments.end() ? "" : found->second;
}

std::string Cell(absl::string_view text) {
  return absl::StrReplaceAll(text, {{"|", "\\|"}, {"<", "&lt;"}, {">", "&gt;"}, {"*", "\\*"}});
}

std::string Link(const Descriptor& type) {
  return absl::StrCat("[", type.name(), "](#", absl::AsciiStrToLower(type.name()), ")");
}

std::string TypeText(const FieldDescriptor& field) {
  const FieldRule& field_rule = RuleOf(field);
  std::string type;
  if (field.message_type() != nullptr) {
    type = Link(*field.message_type());
  } else if (field.enum_type() != nullptr) {
    type = absl::StrCat("one of ", EnumChoices(*field.enum_type()));
  } else if (field_rule.unit() == FieldRule::DURATION_MS) {
    type = "duration";
  } else if (field_rule.unit() == FieldRule::BYTES) {
    type = "bytes";
  } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
    type = "text";
  } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_BOOL) {
    type = "true or false";
  } else if (field.cpp_type() == FieldDescriptor::CPPTYPE_FLOAT ||
             field.cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE) {
    type = "number";
  } else {
    type = "whole number";
  }
  return field.is_repeated() ? absl::StrCat("list: ", type) : type;
}

std::string Number(const FieldRule& field_rule, double value) {
  if (field_rule.unit() == FieldRule::BYTES) return FormatBytes(static_cast<uint64_t>(value));
  if (std::floor(value) == value && std::fabs(value) < 1e15) return absl::StrCat(static_cast<int64_t>(value));
  return absl::StrCat(value);
}

std::string BoundsText(const FieldDescriptor& field) {
  const FieldRule& field_rule = RuleOf(field);
  std::vector<std::string> bounds;
  if (field_rule.has_min()) {
    bounds.push_back(absl::StrCat(field_rule.exclusive_min() ? "> " : "≥ ", Number(field_rule, field_rule.min())));
  }
  if (field_rule.has_max()) bounds.push_back(absl::StrCat("≤ ", Number(field_rule, field_rule.max())));
  return absl::StrJoin(bounds, ", ");
}

std::string DefaultText(const FieldDescriptor& field) {
  const FieldRule& field_rule = RuleOf(field);
  if (field_rule.not_yet()) return "*not yet*";
  if (field_rule.required()) return "**required**";
  if (!field_rule.default_value().empty()) {
    return absl::StrCat("`",
                        field.cpp_type() == FieldDescriptor::CPPTYPE_STRING ? QuoteYaml(field_rule.default_value())
                                                                            : field_rule.default_value(),
                        "`");
  }
  const absl::string_view message_default = MessageDefault(field);
  return message_default.empty() || message_default == "{}" ? "" : absl::StrCat("`", message_default, "`");
}

void AppendEnumValues(const Comments& comments, const Descriptor& type, std::string* markdown) {
  for (int i = 0; i < type.enum_type_count(); ++i) {
    const EnumDescriptor& values = *type.enum_type(i);
    std::vector<std::string> lines;
    for (int j = 0; j < values.value_count(); ++j) {
      const std::string comment = CommentOf(comments, *values.value(j));
      if (comment.empty()) continue;
      lines.push_back(absl::StrCat("- `", absl::AsciiStrToLower(values.value(j)->name()), "`: ", Cell(comment), "\n"));
    }
    if (!lines.empty()) absl::StrAppend(markdown, "\n", values.name(), ":\n\n", absl::StrJoin(lines, ""));
  }
}

void AppendMessage(const Comments& comments, const Descriptor& type, std::string* markdown) {
  absl::StrAppend(markdown, "\n## ", type.name(), "\n");
  const std::string comment = CommentOf(comments, type);
  if (!comment.empty()) absl::StrAppend(markdown, "\n", Cell(comment), "\n");
  if (const FieldDescriptor* shorthand = ShorthandField(type)) {
    absl::StrAppend(markdown, "\nA plain value stands for `", shorthand->name(), "`.\n");
  }
  if (const auto* choice = ChoiceOf(type)) {
    absl::StrAppend(markdown, "\nExactly one of `", absl::StrJoin(ChoiceNames(*choice), "`, `"), "`");
    if (!ChoiceDefault(type).empty()) absl::StrAppend(markdown, " (default: `", ChoiceDefault(type), "`)");
    absl::StrAppend(markdown, "; a name alone stands for it with its defaults.\n");
  }
  if (type.field_count() == 0) {
    absl::StrAppend(markdown, "\nNothing can be set: `{}`.\n");
    return;
  }
  absl::StrAppend(markdown, "\n| field | type | default | bounds | meaning |\n|---|---|---|---|---|\n");
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    const std::string meaning = Cell(CommentOf(comments, field));
    absl::StrAppend(markdown, "| `", field.name(), "` | ", TypeText(field), " | ", DefaultText(field), " | ",
                    BoundsText(field), " | ", meaning, " |\n");
  }
  AppendEnumValues(comments, type, markdown);
}

// Messages in the order in which a reader meets them: depth first from Job, each once.
void Collect(const Descriptor& type, std::vector<const Descriptor*>* types) {
  if (std::find(types->begin(), types->end(), &type) != types->end()) return;
  types->push_back(&type);
  for (int i = 0; i < type.field_count(); ++i) {
    if (type.field(i)->message_type() != nullptr) Collect(*type.field(i)->message_type(), types);
  }
}

}  // namespace

absl::StatusOr<std::string> JobFileMarkdown(absl::string_view descriptor_set) {
  google::protobuf::FileDescriptorSet files;
  if (!files.ParseFromArray(descriptor_set.data(), static_cast<int>(descriptor_set.size()))) {
    return absl::InvalidArgumentError("not a FileDescriptorSet");
  }
  for (const google::protobuf::FileDescriptorProto& file : files.file()) {
    if (file.name() != Job::descriptor()->file()->name()) continue;
    const Comments comments = CommentsOf(file);
    std::vector<const Descriptor*> types;
    Collect(*Job::descriptor(), &types);
    std::string markdown = kJobFileIntro;
    for (const Descriptor* type : types) AppendMessage(comments, *type, &markdown);
    return markdown;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the FileDescriptorSet does not hold ", Job::descriptor()->file()->name()));
}

}  // namespace shoal
