#include "proto/job/yaml_tree.h"

#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/exceptions.h>
#include <yaml-cpp/mark.h>
#include <yaml-cpp/parser.h>

#include <algorithm>
#include <exception>
#include <map>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"

namespace shoal {
namespace {

// Builds a YamlNode from the events of one document. After the first error further events are ignored.
// Not thread-safe; lives for one parse.
class TreeBuilder : public YAML::EventHandler {
 public:
  explicit TreeBuilder(int override_index) : override_index_(override_index) {}

  bool failed() const { return !error_.empty(); }
  const std::string& error() const { return error_; }
  const YamlPosition& error_position() const { return error_position_; }
  YamlNode TakeRoot() { return std::move(root_); }

  YamlPosition Position(const YAML::Mark& mark) const {
    return mark.is_null() ? YamlPosition{override_index_, 1, 1}
                          : YamlPosition{override_index_, mark.line + 1, mark.column + 1};
  }

  void OnDocumentStart(const YAML::Mark&) override {}
  void OnDocumentEnd() override {}

  void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (failed()) return;
    YamlNode node;
    node.position = Position(mark);
    Place(std::move(node), anchor);
  }

  void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
    if (failed()) return;
    const auto found = anchors_.find(anchor);
    if (found == anchors_.end()) return Fail(mark, "alias inside the value that it stands for");
    Count(found->second.second, mark);
    if (failed()) return;
    if (static_cast<int>(open_.size()) + Depth(found->second.first) > kMaxYamlDepth) return FailDepth(mark);
    YamlNode copy = found->second.first;
    Place(std::move(copy), 0);
  }

  void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                const std::string& value) override {
    if (failed() || !CheckTag(mark, tag)) return;
    YamlNode node;
    node.kind = YamlNode::Kind::kScalar;
    node.position = Position(mark);
    node.scalar = value;
    node.quoted = tag == "!";
    Place(std::move(node), anchor);
  }

  void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                       YAML::EmitterStyle::value) override {
    Open(mark, tag, anchor, YamlNode::Kind::kList);
  }
  void OnSequenceEnd() override { Close(); }
  void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  YAML::EmitterStyle::value) override {
    Open(mark, tag, anchor, YamlNode::Kind::kMap);
  }
  void OnMapEnd() override { Close(); }

 private:
  struct OpenNode {
    YamlNode node;
    YAML::anchor_t anchor = 0;
    int first_value = 0;    // values_ before it, to know how many it holds
    bool have_key = false;  // map: the key of the last entry waits for its value
  };

  void Fail(const YAML::Mark& mark, std::string error) {
    error_ = std::move(error);
    error_position_ = Position(mark);
  }
  void FailDepth(const YAML::Mark& mark) { Fail(mark, absl::StrCat("nested deeper than ", kMaxYamlDepth, " levels")); }

  bool CheckTag(const YAML::Mark& mark, const std::string& tag) {
    if (tag.empty() || tag == "?" || tag == "!") return true;
    Fail(mark, "tags are not supported in job files");
    return false;
  }

  void Count(int values, const YAML::Mark& mark) {
    values_ += values;
    if (values_ + anchored_values_ > kMaxYamlValues) Fail(mark, absl::StrCat("more than ", kMaxYamlValues, " values"));
  }

  static int Depth(const YamlNode& node) {
    int depth = 0;
    for (const YamlNode& element : node.elements) depth = std::max(depth, 1 + Depth(element));
    for (const YamlEntry& entry : node.entries) depth = std::max(depth, 1 + Depth(entry.value));
    return depth;
  }

  void Open(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor, YamlNode::Kind kind) {
    if (failed() || !CheckTag(mark, tag)) return;
    if (static_cast<int>(open_.size()) >= kMaxYamlDepth) return FailDepth(mark);
    OpenNode open;
    open.node.kind = kind;
    open.node.position = Position(mark);
    open.anchor = anchor;
    open.first_value = values_;
    open_.push_back(std::move(open));
  }

  void Close() {
    if (failed()) return;
    OpenNode closed = std::move(open_.back());
    open_.pop_back();
    Attach(std::move(closed.node), closed.anchor, closed.first_value);
  }

  void Place(YamlNode node, YAML::anchor_t anchor) { Attach(std::move(node), anchor, values_); }

  void Attach(YamlNode node, YAML::anchor_t anchor, int first_value) {
    YAML::Mark mark;
    mark.line = node.position.line - 1;
    mark.column = node.position.column - 1;
    Count(1, mark);
    if (failed()) return;
    if (anchor != 0) {
      // Kept twice, so counted twice: nested anchors would multiply memory otherwise.
      const int held = values_ - first_value;
      anchored_values_ += held;
      Count(0, mark);
      if (failed()) return;
      anchors_[anchor] = {node, held};
    }
    if (open_.empty()) {
      root_ = std::move(node);
      return;
    }
    OpenNode& parent = open_.back();
    if (parent.node.kind == YamlNode::Kind::kList) {
      parent.node.elements.push_back(std::move(node));
    } else if (!parent.have_key) {
      YamlEntry entry;
      entry.key_position = node.position;
      entry.plain_key = node.kind == YamlNode::Kind::kScalar;
      entry.key = std::move(node.scalar);
      parent.node.entries.push_back(std::move(entry));
      parent.have_key = true;
    } else {
      // The place of a value that isn't there is that of its key: the mark of an empty value is one of what follows.
      if (node.kind == YamlNode::Kind::kNull) node.position = parent.node.entries.back().key_position;
      parent.node.entries.back().value = std::move(node);
      parent.have_key = false;
    }
  }

  const int override_index_;
  std::vector<OpenNode> open_;
  std::map<YAML::anchor_t, std::pair<YamlNode, int>> anchors_;  // value and number of values in it
  int values_ = 0;
  int anchored_values_ = 0;
  YamlNode root_;
  std::string error_;
  YamlPosition error_position_;
};

}  // namespace

bool ParseYamlTree(absl::string_view text, int override_index, YamlNode* root, JobErrors* errors) {
  const YamlPosition start{override_index, 1, 1};
  if (text.size() > static_cast<size_t>(kMaxYamlBytes)) {
    errors->Add(start, "", absl::StrCat("larger than ", kMaxYamlBytes, " bytes"));
    return false;
  }
  TreeBuilder builder(override_index);
  // Only this function sees yaml-cpp's exceptions; they become errors here.
  try {
    std::istringstream stream{std::string(text)};
    YAML::Parser parser(stream);
    parser.HandleNextDocument(builder);
    if (!builder.failed()) {
      TreeBuilder second(override_index);
      if (parser.HandleNextDocument(second)) {
        errors->Add(start, "", "more than one YAML document; a job file holds one");
        return false;
      }
    }
  } catch (const YAML::Exception& exception) {
    // yaml-cpp gives up on deep nesting later than the builder, and says less about it.
    if (!builder.failed())
      errors->Add(builder.Position(exception.mark), "", absl::StrCat("not valid YAML: ", exception.msg));
    if (!builder.failed()) return false;
  } catch (const std::exception& exception) {
    errors->Add(start, "", absl::StrCat("not valid YAML: ", exception.what()));
    return false;
  }
  if (builder.failed()) {
    errors->Add(builder.error_position(), "", builder.error());
    return false;
  }
  *root = builder.TakeRoot();
  return true;
}

}  // namespace shoal
