#include "local/preflight.h"

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "proto/job/resume_check.h"
#include "proto/plan.pb.h"
#include "scheduler/jobs/job_check.h"
#include "server/checkpoint/checkpoint.h"
#include "worker/data/data_set.h"
#include "worker/train/worker_tasks.h"

namespace shoal {
namespace {

namespace fs = std::filesystem;

// A plan reads all inputs once: about a second for as much.
constexpr uint64_t kReadableBytes = uint64_t{1} << 30;

bool Exists(const std::string& path) {
  std::error_code ignored;
  return fs::exists(path, ignored);
}

// The directory as such, whichever way it is written: links, dots and slashes at the end.
fs::path Plain(const std::string& path) {
  std::error_code error;
  fs::path plain = fs::weakly_canonical(path, error);
  if (error) plain = fs::path(path).lexically_normal();
  return plain.has_filename() ? plain : plain.parent_path();
}

bool LiesIn(const std::string& path, const std::string& dir) {
  const fs::path from_dir = Plain(path).lexically_relative(Plain(dir));
  return !from_dir.empty() && *from_dir.begin() != "..";
}

// Whether a checkpoint's parts are there in full size; their bytes are not read.
absl::Status CheckParts(const std::string& dir, const Manifest& manifest) {
  for (const PartInfo& part : manifest.parts()) {
    std::error_code error;
    const std::string file = absl::StrCat(dir, "/", part.file());
    const uintmax_t bytes = fs::file_size(file, error);
    if (error) return absl::DataLossError(absl::StrCat(file, ": ", error.message()));
    if (bytes == part.bytes()) continue;
    return absl::DataLossError(absl::StrCat(file, ": holds ", bytes, " bytes, the manifest says ", part.bytes()));
  }
  return absl::OkStatus();
}

// Inputs that this machine cannot read, each with its field and what is wrong.
std::vector<std::string> UnreadableInputs(const Job& job) {
  std::vector<std::string> out;
  const auto check = [&out](const char* field, const auto& inputs) {
    for (int i = 0; i < inputs.size(); ++i) {
      Job one;
      *one.mutable_data()->add_train() = inputs[i];
      const absl::Status status = CheckInputs(one);
      if (!status.ok()) out.push_back(absl::StrCat(field, i, ": ", status.message()));
    }
  };
  check("data.train.", job.data().train());
  check("data.eval.", job.data().eval());
  return out;
}

// Bytes of the inputs, as they lie on the disk.
absl::StatusOr<uint64_t> InputBytes(const Job& job) {
  uint64_t bytes = 0;
  for (const auto* inputs : {&job.data().train(), &job.data().eval()}) {
    for (const Input& input : *inputs) {
      SHOAL_ASSIGN_OR_RETURN(bytes, AddFileBytes(input, bytes));
    }
  }
  return bytes;
}

// Tables and tensors without the inputs, where the format alone says what features there are.
absl::Status CheckModelAlone(const Job& job, Preflight* out) {
  const absl::StatusOr<FeatureSchema> schema = MakeSchema(job.data(), InputPlan());
  if (schema.ok()) return PlanModel(job, *schema).status();
  out->not_checked.push_back(
      absl::StrCat("the model, whose size depends on the inputs (", schema.status().message(), ")"));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Preflight> CheckJobHere(const Job& job) {
  Preflight out;
  SHOAL_RETURN_IF_ERROR(CheckSubmittedJob(job));
  out.missing = UnreadableInputs(job);
  uint64_t bytes = 0;
  if (out.missing.empty()) {
    SHOAL_ASSIGN_OR_RETURN(bytes, InputBytes(job));
  }
  if (out.missing.empty() && bytes <= kReadableBytes) {
    SHOAL_ASSIGN_OR_RETURN(const JobPlan plan, PlanJob(job));
    SHOAL_RETURN_IF_ERROR(CheckPlan(job, plan));
    const std::string warning = PlanWarning(job, plan);
    if (!warning.empty()) out.warnings.push_back(warning);
  } else {
    out.not_checked.push_back(out.missing.empty()
                                  ? absl::StrCat("the inputs: ", bytes >> 20, " MiB are too many to be read now")
                                  : "the inputs, as some are missing here");
    SHOAL_RETURN_IF_ERROR(CheckModelAlone(job, &out));
  }
  SHOAL_ASSIGN_OR_RETURN(const std::vector<std::string> unseen, CheckStart(job, ""));
  out.not_checked.insert(out.not_checked.end(), unseen.begin(), unseen.end());
  out.not_checked.push_back(
      "what only a cluster knows: the memory of its machines (this one's was taken for a worker's), and whether they "
      "reach the inputs and checkpoint.dir");
  return out;
}

absl::StatusOr<std::vector<std::string>> CheckStart(const Job& job, const std::string& resume) {
  std::vector<std::string> unseen;
  const auto read = [&unseen](const std::string& field, const std::string& path) -> absl::StatusOr<Manifest> {
    absl::StatusOr<Manifest> manifest = ReadManifest(path, nullptr);
    if (manifest.ok()) return manifest;
    const std::string why =
        absl::StrCat(field, ": ", path, ": ", Exists(path) ? manifest.status().message() : "is not on this machine");
    if (absl::IsNotFound(manifest.status()) || !Exists(path)) unseen.push_back(why);
    return absl::Status(manifest.status().code(), why);
  };
  if (!resume.empty() && resume != kLatest) {
    const absl::StatusOr<Manifest> manifest = read("resume", resume);
    if (manifest.ok()) SHOAL_RETURN_IF_ERROR(CheckResumes(*manifest, job, nullptr));
    if (!manifest.ok() && unseen.empty()) return manifest.status();
  }
  const size_t before = unseen.size();
  if (!job.warm_start().checkpoint().empty()) {
    const absl::Status status = read("warm_start.checkpoint", job.warm_start().checkpoint()).status();
    if (!status.ok() && unseen.size() == before) return status;
  }
  return unseen;
}

absl::Status CheckOutput(const std::string& field, const std::string& dir, const std::string& resume) {
  if (resume == kLatest || (!resume.empty() && LiesIn(resume, dir))) return absl::OkStatus();
  if (!Exists(dir)) return absl::OkStatus();
  SHOAL_ASSIGN_OR_RETURN(auto complete, ListCheckpoints(dir));
  SHOAL_ASSIGN_OR_RETURN(auto damaged, ListDamaged(dir));
  if (complete.empty() && damaged.empty()) return absl::OkStatus();
  const auto lacks_parts = std::stable_partition(
      complete.begin(), complete.end(), [](const auto& one) { return CheckParts(one.first, one.second).ok(); });
  for (auto it = lacks_parts; it != complete.end(); ++it) {
    damaged.emplace_back(it->first, CheckParts(it->first, it->second));
  }
  complete.erase(lacks_parts, complete.end());
  std::sort(damaged.begin(), damaged.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  const size_t count = complete.size() + damaged.size();
  std::string text =
      absl::StrCat(field, ": ", dir, " holds ", count, count == 1 ? " checkpoint" : " checkpoints", " already, ");
  if (complete.empty()) {  // there is nothing to go on from
    absl::StrAppend(&text, count == 1 ? "" : "none of which can be read; the newest is ", damaged.back().first,
                    count == 1 ? ", which cannot be read (" : " (", damaged.back().second.message(), "): ");
  } else {
    absl::StrAppend(&text, damaged.empty() ? "the newest" : "the newest that can be read", " is ",
                    complete.back().first, " of job ", complete.back().second.job().name(),
                    ": go on from it with --resume, ");
  }
  return absl::FailedPreconditionError(absl::StrCat(text, "let the new model take ", count == 1 ? "its" : "their",
                                                    " place with --overwrite, or name another directory"));
}

absl::Status CheckOutputFree(const std::string& path, bool directory, bool overwrite) {
  if (overwrite) return absl::OkStatus();
  std::error_code error;
  const fs::file_type type = fs::status(path, error).type();
  std::string what;
  if (type == fs::file_type::regular && fs::file_size(path, error) > 0) what = " is there already: replace it";
  // One that cannot be read says so when it is written.
  if (directory && type == fs::file_type::directory && !fs::is_empty(path, error) && !error) {
    what = " holds files already: replace those of the same name";
  }
  if (path == "-" || what.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("--output: ", path, what, " with --overwrite, or name another one"));
}

}  // namespace shoal
