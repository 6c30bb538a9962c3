#include "server/checkpoint/checkpoint.h"

#include <stdlib.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/checkpoint_name.h"
#include "base/status_macros.h"
#include "server/checkpoint/file_io.h"
#include "server/checkpoint/manifest_file.h"
#include "server/checkpoint/part_format.h"

namespace shoal {
namespace {

namespace fs = std::filesystem;

constexpr absl::string_view kTemporarySuffix = ".tmp";
constexpr absl::string_view kPartSuffix = ".part";

absl::Status RemoveTree(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (!error) return absl::OkStatus();
  errno = error.value();
  return SystemError("remove", path);
}

bool HoldsParts(const std::string& dir) {
  std::error_code error;
  for (fs::directory_iterator it(dir, error), end; !error && it != end; it.increment(error)) {
    if (absl::EndsWith(it->path().string(), kPartSuffix)) return true;
  }
  return false;
}

// What names of one job have in common: all before the number that they end in.
absl::string_view NameStem(absl::string_view name) { return name.substr(0, name.find_last_not_of("0123456789") + 1); }

// Of those that are called as `name` is, all but the newest `keep` go, and what these build on. Damaged directories and
// such with other names or numbers that nobody counts to, somebody's copies, are left for people to look at. What has
// just been committed stays, even if a copy bears a later sequence.
absl::Status Prune(const std::string& dir, const std::string& name, uint32_t keep) {
  SHOAL_ASSIGN_OR_RETURN(auto all, ListCheckpoints(dir));
  const auto foreign = [&](const auto& entry) {
    const std::string other = fs::path(entry.first).filename().string();
    return NameStem(other) != NameStem(name) ||
           CheckpointNumber(name).has_value() != CheckpointNumber(other).has_value();
  };
  all.erase(std::remove_if(all.begin(), all.end(), foreign), all.end());
  if (all.size() <= keep) return absl::OkStatus();
  std::map<std::string, std::string> parent_of;
  for (const auto& [path, manifest] : all) {
    if (!manifest.parent().empty()) parent_of[path] = absl::StrCat(dir, "/", manifest.parent());
  }
  std::set<std::string> needed;
  for (size_t i = 0; i < all.size(); ++i) {
    std::string path = all[i].first;
    if (i < all.size() - keep && fs::path(path).filename() != name) continue;
    while (needed.insert(path).second && parent_of.count(path) != 0) path = parent_of[path];
  }
  bool removed = false;
  // Newest first: a crash on the way leaves no delta without its parent.
  for (size_t i = all.size() - keep; i-- > 0;) {
    if (needed.count(all[i].first) != 0) continue;
    // Out of the way in one step: a crash must not leave half a checkpoint under its name.
    const std::string doomed = absl::StrCat(all[i].first, kTemporarySuffix);
    if (std::rename(all[i].first.c_str(), doomed.c_str()) != 0) return SystemError("rename to", doomed);
    SHOAL_RETURN_IF_ERROR(RemoveTree(doomed));
    removed = true;
  }
  return removed ? SyncDirectory(dir) : absl::OkStatus();
}

}  // namespace

absl::Status CheckWritable(const std::string& dir) {
  SHOAL_RETURN_IF_ERROR(MakeDirectories(dir));
  // Several servers may check one directory at the same time.
  std::string path = absl::StrCat(dir, "/.shoal-write-check-XXXXXX");
  const int fd = mkstemp(&path[0]);
  if (fd < 0) return SystemError("create a file in", dir);
  absl::Status status;
  if (write(fd, "shoal\n", 6) != 6) status = SystemError("write", path);
  if (status.ok() && fsync(fd) != 0) status = SystemError("fsync", path);
  close(fd);
  if (unlink(path.c_str()) != 0 && status.ok()) status = SystemError("remove", path);
  return status;
}

absl::StatusOr<std::string> CommitCheckpoint(const std::string& dir, const std::string& name, const Manifest& manifest,
                                             uint32_t keep) {
  if (name.empty() || name.find('/') != std::string::npos || absl::EndsWith(name, kTemporarySuffix)) {
    return absl::InvalidArgumentError(
        absl::StrCat("name: '", name, "', must be a file name that does not end in ", kTemporarySuffix));
  }
  const std::string path = absl::StrCat(dir, "/", name), temporary = absl::StrCat(path, kTemporarySuffix);
  std::error_code error;
  // A repeat of a commit whose reply was lost.
  if (fs::exists(path, error) && !fs::exists(temporary, error)) {
    SHOAL_ASSIGN_OR_RETURN(const Manifest there, ReadManifestFile(path));
    if (there.sequence() == manifest.sequence() && there.job_digest() == manifest.job_digest()) return path;
    return absl::AlreadyExistsError(absl::StrCat(path, ": holds checkpoint ", there.sequence()));
  }
  Manifest complete = manifest;
  complete.set_format_version(kCheckpointFormatVersion);
  for (const PartInfo& part : complete.parts()) {
    const std::string file = absl::StrCat(temporary, "/", part.file());
    SHOAL_RETURN_IF_ERROR(SyncFile(file));
    const uintmax_t bytes = fs::file_size(file, error);
    if (error || bytes != part.bytes()) {
      return absl::DataLossError(absl::StrCat(file, ": holds ", bytes, " bytes, its server wrote ", part.bytes()));
    }
  }
  if (!complete.parent().empty()) {
    const absl::StatusOr<uint64_t> checksum = ManifestChecksum(absl::StrCat(dir, "/", complete.parent()));
    if (!checksum.ok()) {
      return absl::FailedPreconditionError(
          absl::StrCat(name, ": its parent ", complete.parent(), ": ", checksum.status().message()));
    }
    complete.set_parent_checksum(*checksum);
  }
  SHOAL_RETURN_IF_ERROR(WriteManifestFiles(temporary, complete));
  SHOAL_RETURN_IF_ERROR(SyncDirectory(temporary));
  if (std::rename(temporary.c_str(), path.c_str()) != 0) return SystemError("rename to", path);
  SHOAL_RETURN_IF_ERROR(SyncDirectory(dir));
  SHOAL_RETURN_IF_ERROR(Prune(dir, name, std::max<uint32_t>(1, keep)));
  RemoveAbandoned(dir, name);
  return path;
}

void RemoveAbandoned(const std::string& dir, const std::string& name) {
  std::error_code error;
  std::vector<std::string> abandoned;
  for (fs::directory_iterator it(dir, error), end; !error && it != end; it.increment(error)) {
    const std::string file = it->path().filename().string();
    if (!absl::EndsWith(file, kTemporarySuffix)) continue;
    // Names of one job differ in a number of fixed width, so that they sort by age.
    if (file.size() == name.size() + kTemporarySuffix.size() && file < name) abandoned.push_back(it->path().string());
  }
  for (const std::string& path : abandoned) (void)RemoveTree(path);
}

absl::StatusOr<std::vector<std::pair<std::string, Manifest>>> ListCheckpoints(const std::string& dir) {
  std::error_code error;
  std::vector<std::pair<std::string, Manifest>> out;
  for (fs::directory_iterator it(dir, error), end; !error && it != end; it.increment(error)) {
    const std::string path = it->path().string();
    if (absl::EndsWith(path, kTemporarySuffix)) continue;
    absl::StatusOr<Manifest> manifest = ReadManifestFile(path);
    if (manifest.ok()) out.emplace_back(path, *std::move(manifest));
  }
  if (error) {
    errno = error.value();
    return SystemError("list", dir);
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) {
    return std::make_pair(a.second.sequence(), a.first) < std::make_pair(b.second.sequence(), b.first);
  });
  return out;
}

absl::StatusOr<std::vector<std::pair<std::string, absl::Status>>> ListDamaged(const std::string& dir) {
  std::error_code error;
  std::vector<std::pair<std::string, absl::Status>> out;
  for (fs::directory_iterator it(dir, error), end; !error && it != end; it.increment(error)) {
    const std::string path = it->path().string();
    std::error_code ignored;
    if (absl::EndsWith(path, kTemporarySuffix) || !it->is_directory(ignored)) continue;
    const absl::Status status = ReadManifestFile(path).status();
    // A directory without a manifest is a checkpoint if there are parts in it.
    if (!status.ok() && (!absl::IsNotFound(status) || HoldsParts(path))) out.emplace_back(path, status);
  }
  if (error) {
    errno = error.value();
    return SystemError("list", dir);
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  return out;
}

absl::Status CheckNewest(const std::string& dir) {
  if (!absl::IsNotFound(ReadManifestFile(dir).status()) || HoldsParts(dir)) return absl::OkStatus();
  SHOAL_ASSIGN_OR_RETURN(const auto complete, ListCheckpoints(dir));
  SHOAL_ASSIGN_OR_RETURN(const auto damaged, ListDamaged(dir));
  // Names of one job differ in a number of fixed width.
  if (damaged.empty() || (!complete.empty() && damaged.back().first < complete.back().first)) return absl::OkStatus();
  const absl::Status& status = damaged.back().second;
  return absl::DataLossError(absl::StrCat(
      damaged.back().first, ": ", status.message(), "; ",
      complete.empty() ? "there is no other" : absl::StrCat("the one before it is ", complete.back().first)));
}

absl::StatusOr<uint64_t> HighestCheckpointNumber(const std::string& dir) {
  std::error_code error;
  uint64_t highest = 0;
  for (fs::directory_iterator it(dir, error), end; !error && it != end; it.increment(error)) {
    const std::string file = it->path().filename().string();
    highest = std::max(highest, CheckpointNumber(file).value_or(0));
  }
  if (!error) return highest;
  errno = error.value();
  return SystemError("list", dir);
}

absl::StatusOr<Manifest> ReadManifest(const std::string& path, std::string* resolved) {
  absl::StatusOr<Manifest> here = ReadManifestFile(path);
  if (here.ok() || here.status().code() != absl::StatusCode::kNotFound) {
    if (here.ok() && resolved != nullptr) *resolved = path;
    return here;
  }
  SHOAL_ASSIGN_OR_RETURN(auto all, ListCheckpoints(path));
  if (all.empty()) return absl::NotFoundError(absl::StrCat(path, ": holds no complete checkpoint"));
  if (resolved != nullptr) *resolved = all.back().first;
  return std::move(all.back().second);
}

}  // namespace shoal
