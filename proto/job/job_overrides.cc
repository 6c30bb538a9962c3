#include "proto/job/job_overrides.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "proto/job.pb.h"
#include "proto/job/job_schema.h"

namespace shoal {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

// Whether nothing but a value makes sense: numbers, sizes, durations, true or false, names of a choice.
bool NeedsValue(const FieldDescriptor& field) {
  return !field.is_repeated() && field.cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE &&
         field.cpp_type() != FieldDescriptor::CPPTYPE_STRING;
}

// Applies one override. `type` and `field` follow the path as far as the schema knows it, so that shorthands on the way
// ("format: criteo") can be written out. Lives for one override.
class Override {
 public:
  // `empty`: the value is no text at all, which a script's unset variable is, too.
  Override(int index, std::vector<std::string> path, YamlNode value, bool empty, JobErrors* errors)
      : index_(index), path_(std::move(path)), value_(std::move(value)), empty_(empty), errors_(errors) {}

  void Apply(YamlNode* root) { InMessage(root, 0, Job::descriptor()); }

 private:
  bool last(size_t depth) const { return depth + 1 == path_.size(); }
  YamlPosition position() const { return {index_, 1, 1}; }

  void Fail(size_t depth, absl::string_view message) {
    errors_->Add(position(), absl::StrJoin(path_.begin(), path_.begin() + depth, "."), message);
  }

  YamlNode EmptyNode(YamlNode::Kind kind) const {
    YamlNode node;
    node.kind = kind;
    node.position = position();
    return node;
  }

  // Makes *node a mapping: nothing becomes {}, a shorthand is written out. False after an error.
  bool MakeMap(YamlNode* node, size_t depth, const Descriptor* type) {
    if (node->kind == YamlNode::Kind::kNull) *node = EmptyNode(YamlNode::Kind::kMap);
    if (node->kind == YamlNode::Kind::kScalar && type != nullptr) {
      const FieldDescriptor* shorthand = ShorthandField(*type);
      if (shorthand != nullptr || ChoiceOf(*type) != nullptr) {
        YamlNode map;
        map.kind = YamlNode::Kind::kMap;
        map.position = node->position;
        YamlEntry entry;
        entry.key_position = node->position;
        entry.key = shorthand != nullptr ? shorthand->name() : node->scalar;
        entry.value.position = node->position;
        if (shorthand != nullptr) entry.value = std::move(*node);
        map.entries.push_back(std::move(entry));
        *node = std::move(map);
      }
    }
    if (node->kind == YamlNode::Kind::kMap) return true;
    Fail(depth, absl::StrCat("has no key ", path_[depth], " because it is not a mapping"));
    return false;
  }

  // path_[depth] is a key of *node, whose type is `type` (null: not known).
  void InMessage(YamlNode* node, size_t depth, const Descriptor* type) {
    if (!MakeMap(node, depth, type)) return;
    const std::string& key = path_[depth];
    const FieldDescriptor* field = type == nullptr ? nullptr : type->FindFieldByName(key);
    std::vector<YamlEntry>& entries = node->entries;
    const auto same_key = [&](const YamlEntry& entry) { return entry.plain_key && entry.key == key; };
    if (last(depth) && value_.kind == YamlNode::Kind::kNull) {
      if (empty_ && field != nullptr && NeedsValue(*field)) {
        return Fail(depth + 1, "has no value; give it one, or null for its default");
      }
      entries.erase(std::remove_if(entries.begin(), entries.end(), same_key), entries.end());
      return;
    }
    if (field != nullptr && field->real_containing_oneof() != nullptr) {
      const auto other_choice = [&](const YamlEntry& entry) {
        const FieldDescriptor* other = type->FindFieldByName(entry.key);
        return other != nullptr && other != field && other->real_containing_oneof() == field->real_containing_oneof();
      };
      entries.erase(std::remove_if(entries.begin(), entries.end(), other_choice), entries.end());
    }
    auto found = std::find_if(entries.begin(), entries.end(), same_key);
    if (found == entries.end()) {
      YamlEntry entry;
      entry.key_position = position();
      entry.key = key;
      entry.value.position = position();
      found = entries.insert(entries.end(), std::move(entry));
    }
    if (last(depth)) {
      found->key_position = position();
      found->value = value_;
    } else if (field != nullptr && field->is_repeated()) {
      InList(&found->value, depth + 1, field);
    } else {
      InMessage(&found->value, depth + 1, field == nullptr ? nullptr : field->message_type());
    }
  }

  // path_[depth] is an index into *node, the value of the repeated `field`.
  void InList(YamlNode* node, size_t depth, const FieldDescriptor* field) {
    if (node->kind == YamlNode::Kind::kNull) *node = EmptyNode(YamlNode::Kind::kList);
    if (node->kind != YamlNode::Kind::kList) {  // one value is a list of one
      YamlNode list;
      list.kind = YamlNode::Kind::kList;
      list.position = node->position;
      list.elements.push_back(std::move(*node));
      *node = std::move(list);
    }
    std::vector<YamlNode>& elements = node->elements;
    uint32_t index = 0;
    if (!absl::SimpleAtoi(path_[depth], &index) || index > elements.size()) {
      return Fail(depth, absl::StrCat("has ", elements.size(), " elements; \"", path_[depth],
                                      "\" is not the index of one of them or of the next"));
    }
    if (last(depth) && value_.kind == YamlNode::Kind::kNull) {
      if (index < elements.size()) elements.erase(elements.begin() + index);
      return;
    }
    if (index == elements.size()) elements.push_back(EmptyNode(YamlNode::Kind::kNull));
    if (last(depth)) {
      elements[index] = value_;
    } else {
      InMessage(&elements[index], depth + 1, field->message_type());
    }
  }

  const int index_;
  const std::vector<std::string> path_;
  const YamlNode value_;
  const bool empty_;
  JobErrors* const errors_;
};

}  // namespace

void ApplyOverrides(const std::vector<std::string>& overrides, YamlNode* root, JobErrors* errors) {
  for (size_t i = 0; i < overrides.size(); ++i) {
    const YamlPosition position{static_cast<int>(i), 1, 1};
    const size_t equals = overrides[i].find('=');
    if (equals == std::string::npos) {
      errors->Add(position, "", "write it like batch.size=512");
      continue;
    }
    std::vector<std::string> path = absl::StrSplit(absl::string_view(overrides[i]).substr(0, equals), '.');
    if (path.size() > static_cast<size_t>(kMaxYamlDepth) || std::count(path.begin(), path.end(), "") != 0) {
      errors->Add(position, "", "before the = stands a field, with dots between the names");
      continue;
    }
    YamlNode value;
    const absl::string_view text = absl::string_view(overrides[i]).substr(equals + 1);
    if (!ParseYamlTree(text, position.override_index, &value, errors)) continue;
    if (root->kind == YamlNode::Kind::kNull || root->kind == YamlNode::Kind::kMap) {
      const bool empty = absl::StripAsciiWhitespace(text).empty();
      Override(position.override_index, std::move(path), std::move(value), empty, errors).Apply(root);
    }
  }
}

}  // namespace shoal
