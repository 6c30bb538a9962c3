// Where a value of a job stands, and the errors found in it: all of a file are reported at once.
#ifndef SHOAL_PROTO_JOB_JOB_ERRORS_H_
#define SHOAL_PROTO_JOB_JOB_ERRORS_H_

#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace shoal {

// Place of a value: line and column (from 1) of the job file, or the number of the override that gave it.
struct YamlPosition {
  int override_index = -1;  // -1: the job file
  int line = 1;
  int column = 1;
};

// Collects errors. Not thread-safe; lives while one job is loaded.
class JobErrors {
 public:
  // `overrides` are the --set texts; errors in their values name them instead of file and line.
  JobErrors(std::string file_name, std::vector<std::string> overrides)
      : file_name_(std::move(file_name)), overrides_(std::move(overrides)) {}

  // `path` is the dotted field path; empty for the file as a whole.
  void Add(const YamlPosition& position, absl::string_view path, absl::string_view message);

  bool empty() const { return errors_.empty(); }
  // True when an error was added for `path`, for a field inside it, or for a message that contains it.
  bool Concerns(absl::string_view path) const;
  // "line 4", or the override.
  std::string Describe(const YamlPosition& position) const;
  // INVALID_ARGUMENT with one line per error, in the order of the file, overrides last. REQUIRES: !empty().
  absl::Status ToStatus() const;

 private:
  struct Error {
    YamlPosition position;
    std::string path;
    std::string text;
  };

  const std::string file_name_;
  const std::vector<std::string> overrides_;
  std::vector<Error> errors_;
};

}  // namespace shoal

#endif  // SHOAL_PROTO_JOB_JOB_ERRORS_H_
