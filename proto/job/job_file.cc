#include "proto/job/job_file.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "proto/job/job_check.h"
#include "proto/job/job_errors.h"
#include "proto/job/job_overrides.h"
#include "proto/job/job_reader.h"
#include "proto/job/yaml_tree.h"

namespace shoal {
namespace {

std::string Absolute(const std::filesystem::path& base, const std::string& path) {
  return (base / path).lexically_normal().string();
}

// Slots get their names here, so that nobody downstream needs the rule.
void NameSlots(Data* data) {
  if (!data->has_columns()) return;
  for (SparseFeature& feature : *data->mutable_columns()->mutable_sparse()) feature.set_name(SlotName(feature));
}

absl::StatusOr<std::string> ReadJobText(const std::string& path) {
  std::error_code error;
  if (std::filesystem::is_directory(path, error)) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is a directory, not a job file"));
  }
  errno = 0;
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    const int code = errno;
    const std::string message = absl::StrCat("cannot read job file ", path, ": ", std::strerror(code));
    return code == ENOENT ? absl::NotFoundError(message) : absl::PermissionDeniedError(message);
  }
  // One byte beyond the limit is enough for the parser to refuse it.
  std::string text(kMaxYamlBytes + 1, '\0');
  file.read(&text[0], static_cast<std::streamsize>(text.size()));
  if (file.bad()) return absl::UnavailableError(absl::StrCat("cannot read job file ", path));
  text.resize(static_cast<size_t>(file.gcount()));
  return text;
}

}  // namespace

absl::StatusOr<Job> LoadJob(const std::string& path, const std::vector<std::string>& overrides) {
  SHOAL_ASSIGN_OR_RETURN(const std::string text, ReadJobText(path));
  return LoadJobFromText(text, path, std::filesystem::path(path).parent_path().string(), overrides);
}

absl::StatusOr<Job> LoadJobFromText(absl::string_view text, const std::string& file_name, const std::string& base_dir,
                                    const std::vector<std::string>& overrides) {
  JobErrors errors(file_name, overrides);
  YamlNode root;
  if (!ParseYamlTree(text, /*override_index=*/-1, &root, &errors)) return errors.ToStatus();
  ApplyOverrides(overrides, &root, &errors);
  Job job;
  JobReader reader(&errors);
  reader.Read(root, &job);
  // A field that could not be read must not be blamed a second time for what it lacks.
  const JobErrors read_errors = errors;
  CheckJob(job, [&](const std::string& path, absl::string_view message) {
    if (!read_errors.Concerns(path)) errors.Add(reader.Locate(path), path, message);
  });
  if (!errors.empty()) return errors.ToStatus();

  std::error_code error;
  const std::filesystem::path base = std::filesystem::absolute(base_dir.empty() ? "." : base_dir, error);
  if (error) return absl::UnavailableError(absl::StrCat("cannot find the current directory: ", error.message()));
  for (Input& input : *job.mutable_data()->mutable_train()) input.set_path(Absolute(base, input.path()));
  for (Input& input : *job.mutable_data()->mutable_eval()) input.set_path(Absolute(base, input.path()));
  if (job.has_checkpoint()) job.mutable_checkpoint()->set_dir(Absolute(base, job.checkpoint().dir()));
  if (job.has_warm_start()) {
    job.mutable_warm_start()->set_checkpoint(Absolute(base, job.warm_start().checkpoint()));
  }
  NameSlots(job.mutable_data());
  return job;
}

}  // namespace shoal
