#include "worker/data/content.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace shoal {
namespace {

constexpr uint64_t kChunkBytes = 1 << 20;  // large enough that a read costs nothing beside the copy

absl::Status IoError(absl::string_view what, absl::string_view path, int error) {
  const std::string message = absl::StrCat(path, ": ", what, ": ", std::strerror(error));
  if (error == ENOENT) return absl::NotFoundError(message);
  if (error == EACCES || error == EPERM) return absl::PermissionDeniedError(message);
  if (error == ENOSPC) return absl::ResourceExhaustedError(message);
  return absl::UnavailableError(message);
}

// A file that vanishes with its last descriptor, in TMPDIR or /tmp.
absl::StatusOr<int> OpenScratch(const std::string& for_path) {
  const char* directory = std::getenv("TMPDIR");
  std::string name = absl::StrCat(directory != nullptr && *directory != '\0' ? directory : "/tmp", "/shoal-XXXXXX");
  const int fd = mkostemp(name.data(), O_CLOEXEC);
  if (fd < 0) return IoError(absl::StrCat("cannot create a scratch file ", name, " to decompress"), for_path, errno);
  unlink(name.c_str());
  return fd;
}

absl::StatusOr<uint64_t> FileSize(const std::string& path, int fd) {
  struct stat info;
  if (fstat(fd, &info) != 0) return IoError("cannot stat", path, errno);
  if (S_ISDIR(info.st_mode)) return absl::InvalidArgumentError(absl::StrCat(path, ": is a directory, expected a file"));
  if (!S_ISREG(info.st_mode)) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": is not a regular file; pipes and devices cannot be split"));
  }
  return static_cast<uint64_t>(info.st_size);
}

}  // namespace

FileContent::FileContent(std::string path, int fd, uint64_t file_bytes)
    : path_(std::move(path)), fd_(fd), file_bytes_(file_bytes), size_(file_bytes) {}

FileContent::~FileContent() { close(fd_); }

absl::StatusOr<std::shared_ptr<const FileContent>> FileContent::Open(const std::string& path) {
  // O_NONBLOCK: opening a pipe that nobody writes must not hang; it has no effect on regular files.
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (fd < 0) return IoError("cannot open", path, errno);
  auto size = FileSize(path, fd);
  if (!size.ok()) {
    close(fd);
    return size.status();
  }
  std::shared_ptr<FileContent> content(new FileContent(path, fd, *size));
  unsigned char magic[4] = {0, 0, 0, 0};
  SHOAL_RETURN_IF_ERROR(content->ReadAt(0, std::min<uint64_t>(4, *size), reinterpret_cast<char*>(magic)));
  const bool gzip = magic[0] == 0x1f && magic[1] == 0x8b;
  const bool zstd = magic[1] == 0xb5 && magic[2] == 0x2f && magic[3] == 0xfd && magic[0] == 0x28;
  const bool zstd_skippable = (magic[0] & 0xf0) == 0x50 && magic[1] == 0x2a && magic[2] == 0x4d && magic[3] == 0x18;
  if (!gzip && !zstd && !zstd_skippable) return std::shared_ptr<const FileContent>(std::move(content));

  SHOAL_ASSIGN_OR_RETURN(const int scratch, OpenScratch(path));
  absl::Status status = Decompress(path, fd, scratch).status();
  absl::StatusOr<uint64_t> content_size = 0;
  if (status.ok()) {
    content_size = FileSize(path, scratch);
    status = content_size.status();
  }
  if (!status.ok()) {
    close(scratch);
    return status;
  }
  close(content->fd_);
  content->fd_ = scratch;
  content->size_ = *content_size;
  return std::shared_ptr<const FileContent>(std::move(content));
}

absl::Status FileContent::ReadAt(uint64_t offset, uint64_t count, char* out) const {
  while (count > 0) {
    const ssize_t got = pread(fd_, out, count, static_cast<off_t>(offset));
    if (got < 0) {
      if (errno == EINTR) continue;
      return IoError(absl::StrCat("cannot read at byte ", offset), path_, errno);
    }
    if (got == 0) {
      return absl::DataLossError(absl::StrCat(path_, ": ends at byte ", offset, " although it had ", size_,
                                              " bytes when it was opened: the file was changed while in use"));
    }
    out += got;
    offset += got;
    count -= got;
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> FileContent::Hash() const {
  std::unique_ptr<XXH64_state_t, XXH_errorcode (*)(XXH64_state_t*)> state(XXH64_createState(), XXH64_freeState);
  XXH64_reset(state.get(), 0);
  std::vector<char> buffer(std::min(size_, kChunkBytes));
  for (uint64_t at = 0; at < size_;) {
    const uint64_t count = std::min(size_ - at, kChunkBytes);
    SHOAL_RETURN_IF_ERROR(ReadAt(at, count, buffer.data()));
    XXH64_update(state.get(), buffer.data(), count);
    at += count;
  }
  return XXH64_digest(state.get());
}

absl::StatusOr<uint64_t> FileContent::LineOf(uint64_t offset) const {
  offset = std::min(offset, size_);
  MutexLock lock(&mu_);
  std::vector<char> buffer(std::min(size_, kChunkBytes));
  const auto count_newlines = [&](uint64_t begin, uint64_t end) -> absl::StatusOr<uint64_t> {
    SHOAL_RETURN_IF_ERROR(ReadAt(begin, end - begin, buffer.data()));
    return static_cast<uint64_t>(std::count(buffer.begin(), buffer.begin() + (end - begin), '\n'));
  };
  const uint64_t chunk = offset / kChunkBytes;
  while (lines_before_.size() <= chunk) {
    const uint64_t begin = (lines_before_.size() - 1) * kChunkBytes;
    SHOAL_ASSIGN_OR_RETURN(const uint64_t lines, count_newlines(begin, begin + kChunkBytes));
    lines_before_.push_back(lines_before_.back() + lines);
  }
  SHOAL_ASSIGN_OR_RETURN(const uint64_t lines, count_newlines(chunk * kChunkBytes, offset));
  return lines_before_[chunk] + lines + 1;
}

}  // namespace shoal
