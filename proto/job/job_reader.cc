#include "proto/job/job_reader.h"

#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/text_distance.h"
#include "proto/job/job_schema.h"
#include "proto/job/scalar_values.h"

namespace shoal {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::OneofDescriptor;

constexpr absl::string_view kNoValue = "has no value; remove the key or give it one";

std::string Join(absl::string_view path, absl::string_view name) {
  return path.empty() ? std::string(name) : absl::StrCat(path, ".", name);
}

// "; did you mean x?", or the names there are.
std::string Hint(absl::string_view name, const std::vector<std::string>& names) {
  const std::string nearest = NearestName(name, names);
  if (!nearest.empty()) return absl::StrCat("; did you mean ", nearest, "?");
  if (names.empty()) return "; nothing can be set here";
  return absl::StrCat("; known here: ", absl::StrJoin(names, ", "));
}

absl::string_view KindName(const YamlNode& node) {
  switch (node.kind) {
    case YamlNode::Kind::kList:
      return "a list";
    case YamlNode::Kind::kMap:
      return "a mapping";
    default:
      return "a single value";
  }
}

}  // namespace

void JobReader::Read(const YamlNode& root, Job* job) {
  job->Clear();
  if (root.kind == YamlNode::Kind::kScalar || root.kind == YamlNode::Kind::kList) {
    errors_->Add(root.position, "", absl::StrCat("a job file is a mapping of keys to values, not ", KindName(root)));
    return;
  }
  ReadMessage(root, "", job);
}

YamlPosition JobReader::Locate(absl::string_view path) const {
  for (;;) {
    const auto found = positions_.find(path);
    if (found != positions_.end()) return found->second;
    if (path.empty()) return YamlPosition();
    const size_t dot = path.rfind('.');
    path = dot == absl::string_view::npos ? "" : path.substr(0, dot);
  }
}

void JobReader::ReadMessage(const YamlNode& node, const std::string& path, Message* message) {
  positions_.emplace(path, node.position);
  switch (node.kind) {
    case YamlNode::Kind::kScalar:
      return ReadMessageFromScalar(node, path, message);
    case YamlNode::Kind::kList:
      errors_->Add(node.position, path, "a mapping ({key: value}) is expected, not a list");
      return;
    default:  // no value at all is an empty mapping: "asp:" says as much as "asp: {}"
      return ReadMap(node, path, message);
  }
}

void JobReader::ReadMessageFromScalar(const YamlNode& node, const std::string& path, Message* message) {
  const Descriptor& type = *message->GetDescriptor();
  if (const FieldDescriptor* shorthand = ShorthandField(type)) {
    ReadField(node, *shorthand, Join(path, shorthand->name()), message);
    return FillAbsent(node.position, path, {shorthand}, message);
  }
  const OneofDescriptor* choice = ChoiceOf(type);
  if (choice == nullptr) {
    errors_->Add(node.position, path, "a mapping ({key: value}) is expected, not a single value");
    return;
  }
  for (int i = 0; i < choice->field_count(); ++i) {
    const FieldDescriptor& field = *choice->field(i);
    if (field.name() != node.scalar) continue;
    YamlNode empty;
    empty.position = node.position;
    ReadField(empty, field, Join(path, field.name()), message);
    return FillAbsent(node.position, path, {&field}, message);
  }
  errors_->Add(
      node.position, path,
      absl::StrCat("unknown choice ", QuoteYaml(node.scalar.substr(0, 80)), Hint(node.scalar, ChoiceNames(*choice))));
}

void JobReader::ReadMap(const YamlNode& node, const std::string& path, Message* message) {
  Entries seen;
  for (const YamlEntry& entry : node.entries) {
    const FieldDescriptor* field = FindField(entry, path, *message, seen);
    if (field == nullptr) continue;
    const bool readable = CheckChoice(entry, *field, path, seen);
    seen.emplace(field, &entry);
    if (readable) ReadField(entry.value, *field, Join(path, field->name()), message);
  }
  std::set<const FieldDescriptor*> fields;
  for (const auto& [field, entry] : seen) fields.insert(field);
  FillAbsent(node.position, path, fields, message);
}

const google::protobuf::FieldDescriptor* JobReader::FindField(const YamlEntry& entry, const std::string& path,
                                                              const Message& message, const Entries& seen) {
  if (!entry.plain_key) {
    errors_->Add(entry.key_position, path, "a key must be a name");
    return nullptr;
  }
  const Descriptor& type = *message.GetDescriptor();
  const FieldDescriptor* field = type.FindFieldByName(entry.key);
  if (field == nullptr) {
    errors_->Add(entry.key_position, Join(path, entry.key.substr(0, 80)),
                 absl::StrCat("unknown key", Hint(entry.key, KeyNames(type))));
    return nullptr;
  }
  if (RuleOf(*field).not_yet()) {
    errors_->Add(entry.key_position, Join(path, entry.key), "not yet supported; remove it");
    return nullptr;
  }
  const auto first = seen.find(field);
  if (first != seen.end()) {
    errors_->Add(entry.key_position, Join(path, entry.key),
                 absl::StrCat("duplicate key; first set at ", errors_->Describe(first->second->key_position)));
    return nullptr;
  }
  return field;
}

bool JobReader::CheckChoice(const YamlEntry& entry, const FieldDescriptor& field, const std::string& path,
                            const Entries& seen) {
  const OneofDescriptor* choice = field.real_containing_oneof();
  if (choice == nullptr) return true;
  for (const auto& [other, other_entry] : seen) {
    if (other->real_containing_oneof() != choice) continue;
    errors_->Add(entry.key_position, path,
                 absl::StrCat("only one of ", absl::StrJoin(ChoiceNames(*choice), ", "), " may be set; found ",
                              other->name(), " at ", errors_->Describe(other_entry->key_position), " and ",
                              field.name(), " at ", errors_->Describe(entry.key_position)));
    return false;
  }
  return true;
}

void JobReader::ReadField(const YamlNode& node, const FieldDescriptor& field, const std::string& path,
                          Message* message) {
  positions_.emplace(path, node.position);
  if (!field.is_repeated()) return ReadElement(node, field, path, message);
  if (node.kind == YamlNode::Kind::kNull) {
    errors_->Add(node.position, path, kNoValue);
  } else if (node.kind != YamlNode::Kind::kList) {
    ReadElement(node, field, Join(path, "0"), message);  // one value is a list of one
  } else {
    for (size_t i = 0; i < node.elements.size(); ++i) {
      const std::string element_path = Join(path, absl::StrCat(i));
      if (node.elements[i].kind == YamlNode::Kind::kNull) {
        errors_->Add(node.elements[i].position, element_path, kNoValue);
      } else {
        ReadElement(node.elements[i], field, element_path, message);
      }
    }
  }
}

void JobReader::ReadElement(const YamlNode& node, const FieldDescriptor& field, const std::string& path,
                            Message* message) {
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
    const google::protobuf::Reflection& reflection = *message->GetReflection();
    return ReadMessage(
        node, path,
        field.is_repeated() ? reflection.AddMessage(message, &field) : reflection.MutableMessage(message, &field));
  }
  positions_.emplace(path, node.position);
  if (node.kind == YamlNode::Kind::kNull) {
    errors_->Add(node.position, path, kNoValue);
  } else if (node.kind != YamlNode::Kind::kScalar) {
    errors_->Add(node.position, path, absl::StrCat("a single value is expected, not ", KindName(node)));
  } else {
    const absl::Status status = SetScalar(field, node.scalar, node.quoted, message);
    if (!status.ok()) errors_->Add(node.position, path, status.message());
  }
}

void JobReader::FillAbsent(const YamlPosition& position, const std::string& path,
                           const std::set<const FieldDescriptor*>& seen, Message* message) {
  const Descriptor& type = *message->GetDescriptor();
  bool chosen = false;
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    const bool in_choice = field.real_containing_oneof() != nullptr;
    if (seen.count(&field) != 0) {
      chosen = chosen || in_choice;
    } else if (!in_choice && !RuleOf(field).not_yet()) {
      FillField(position, field, Join(path, field.name()), message);
    }
  }
  if (ChoiceOf(type) != nullptr && !chosen) FillChoice(position, path, message);
}

void JobReader::FillField(const YamlPosition& position, const FieldDescriptor& field, const std::string& path,
                          Message* message) {
  const FieldRule& field_rule = RuleOf(field);
  if (field_rule.required()) {
    errors_->Add(position, path, "required but missing");
  } else if (!field_rule.default_value().empty()) {
    const absl::Status status = SetScalar(field, field_rule.default_value(), /*quoted=*/false, message);
    if (!status.ok()) errors_->Add(position, path, absl::StrCat("default: ", status.message()));
  } else if (!MessageDefault(field).empty()) {
    YamlNode node;
    if (!ParseYamlTree(MessageDefault(field), position.override_index, &node, errors_)) return;
    node.position = position;
    ReadMessage(node, path, message->GetReflection()->MutableMessage(message, &field));
  }
}

void JobReader::FillChoice(const YamlPosition& position, const std::string& path, Message* message) {
  const Descriptor& type = *message->GetDescriptor();
  const absl::string_view choice = ChoiceDefault(type);
  if (choice.empty()) {
    errors_->Add(position, path,
                 absl::StrCat("one of ", absl::StrJoin(ChoiceNames(*ChoiceOf(type)), ", "), " must be set"));
    return;
  }
  YamlNode empty;
  empty.position = position;
  const FieldDescriptor& field = *type.FindFieldByName(std::string(choice));
  ReadField(empty, field, Join(path, field.name()), message);
}

}  // namespace shoal
