// YAML text as a plain tree that keeps what a strict reader needs: positions, duplicate keys, and whether a scalar was
// quoted. yaml-cpp's own nodes lose some of this and share nodes between aliases.
#ifndef SHOAL_PROTO_JOB_YAML_TREE_H_
#define SHOAL_PROTO_JOB_YAML_TREE_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "proto/job/job_errors.h"

namespace shoal {

struct YamlEntry;

// One value; a plain copyable tree.
struct YamlNode {
  enum class Kind { kNull, kScalar, kList, kMap };

  Kind kind = Kind::kNull;
  YamlPosition position;
  std::string scalar;              // kScalar
  bool quoted = false;             // kScalar: written with quotes, so it is text
  std::vector<YamlNode> elements;  // kList
  std::vector<YamlEntry> entries;  // kMap, in file order; keys may repeat
};

struct YamlEntry {
  YamlPosition key_position;
  bool plain_key = true;  // false: the key is a list or a map and `key` is empty
  std::string key;
  YamlNode value;
};

// Limits of a job file; beyond them is an error, never a crash.
constexpr int kMaxYamlBytes = 4 << 20;
constexpr int kMaxYamlDepth = 64;
constexpr int kMaxYamlValues = 1 << 18;  // after aliases are expanded

// Parses one document. Every position in it gets `override_index`. Returns false after adding an error.
bool ParseYamlTree(absl::string_view text, int override_index, YamlNode* root, JobErrors* errors);

}  // namespace shoal

#endif  // SHOAL_PROTO_JOB_YAML_TREE_H_
