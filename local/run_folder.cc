#include "local/run_folder.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "local/report.h"
#include "proto/job/job_file.h"

namespace shoal {
namespace {

absl::Status FileError(absl::string_view what, const std::string& path, absl::string_view why) {
  return absl::UnavailableError(
      absl::StrCat("cannot ", what, " ", path, ": ", why, " (--runs DIR chooses another place, --runs '' none)"));
}

}  // namespace

std::string RunFolder::NewId() {
  return absl::StrCat(absl::FormatTime("%Y%m%d-%H%M%S", absl::Now(), absl::UTCTimeZone()), "-", getpid());
}

absl::StatusOr<std::unique_ptr<RunFolder>> RunFolder::Create(const std::string& runs, const std::string& id,
                                                             const Job& job) {
  std::unique_ptr<RunFolder> folder(new RunFolder());
  const std::string base = absl::StrCat(runs, "/", job.name(), "-", id);
  folder->path_ = base;
  std::error_code error;
  std::filesystem::create_directories(runs, error);
  // Job numbers of two clusters may be the same: what a folder holds is never added to.
  for (int again = 2; !error && !std::filesystem::create_directory(folder->path_, error) && !error; ++again) {
    folder->path_ = absl::StrCat(base, "-", again);
  }
  if (error) return FileError("make", folder->path_, error.message());
  const std::string job_path = folder->path_ + "/job.resolved.yaml";
  const std::string text = ResolvedYaml(job);
  std::FILE* file = std::fopen(job_path.c_str(), "w");
  if (file == nullptr) return FileError("write", job_path, std::strerror(errno));
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (std::fclose(file) != 0 || !written) return FileError("write", job_path, std::strerror(errno));
  const std::string metrics_path = folder->path_ + "/metrics.jsonl";
  folder->metrics_ = std::fopen(metrics_path.c_str(), "w");
  if (folder->metrics_ == nullptr) return FileError("write", metrics_path, std::strerror(errno));
  return folder;
}

RunFolder::~RunFolder() {
  if (metrics_ != nullptr) std::fclose(metrics_);
}

void RunFolder::Add(const JobStatus& status) {
  const absl::Duration now = Clock::Steady().Now();
  if (now - last_ < absl::Seconds(1) && status.state() == last_state_) return;
  last_ = now;
  last_state_ = status.state();
  // The last line holds all that is known, so that nothing need be kept elsewhere.
  const std::string line = (IsFinal(status.state()) ? JobJson(status) : ProgressJson(status)).dump() + "\n";
  std::fwrite(line.data(), 1, line.size(), metrics_);
  std::fflush(metrics_);
}

ProgressLine::ProgressLine(bool always) : terminal_(isatty(STDERR_FILENO) == 1), always_(always) {}

void ProgressLine::Show(const JobStatus& status) {
  if (!terminal_ && !always_) return;
  // A terminal shows what eyes can follow; a log file should stay readable.
  const absl::Duration pause = terminal_ ? absl::Milliseconds(200) : absl::Seconds(5);
  const absl::Duration now = Clock::Steady().Now();
  if (now - last_ < pause && status.state() == last_state_) return;
  last_ = now;
  last_state_ = status.state();
  std::string line = ProgressText(status);
  if (!terminal_) {
    absl::StrAppend(&line, "\n");
  } else {
    const size_t width = line.size();
    if (width < width_) line.append(width_ - width, ' ');
    width_ = width;
    line.insert(0, "\r");
  }
  std::fwrite(line.data(), 1, line.size(), stderr);
  std::fflush(stderr);
}

void ProgressLine::Finish() {
  if (width_ > 0) std::fputc('\n', stderr);
  width_ = 0;
}

}  // namespace shoal
