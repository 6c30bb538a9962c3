#include "server/checkpoint/file_io.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"

namespace shoal {
namespace {

// Long enough for a spinning disk to be efficient, short enough that two of them are nothing beside a machine's memory.
constexpr uint64_t kFlushBytes = 8 << 20;

}  // namespace

absl::Status SystemError(absl::string_view action, const std::string& path) {
  const int error = errno;
  const std::string message = absl::StrCat(action, " ", path, ": ", std::strerror(error));
  if (error == ENOENT) return absl::NotFoundError(message);
  if (error == EACCES || error == EPERM || error == EROFS) return absl::PermissionDeniedError(message);
  if (error == ENOSPC || error == EDQUOT || error == EFBIG) return absl::ResourceExhaustedError(message);
  return absl::UnavailableError(message);
}

absl::StatusOr<std::unique_ptr<File>> File::OpenToRead(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return SystemError("open", path);
  return std::unique_ptr<File>(new File(path, fd));
}

absl::StatusOr<std::unique_ptr<File>> File::Create(const std::string& path) {
  const int fd = open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return SystemError("create", path);
  return std::unique_ptr<File>(new File(path, fd));
}

File::~File() {
  if (fd_ >= 0) close(fd_);
}

absl::StatusOr<uint64_t> File::Size() const {
  struct stat info;
  if (fstat(fd_, &info) != 0) return SystemError("stat", path_);
  return static_cast<uint64_t>(info.st_size);
}

absl::Status File::ReadAt(uint64_t offset, uint64_t count, std::string* out) const {
  const absl::StatusOr<uint64_t> size = Size();
  if (!size.ok()) return size.status();
  // Before anything is allocated: a damaged length must not ask for terabytes.
  if (offset > *size || count > *size - offset) {
    return absl::DataLossError(absl::StrCat(path_, ": ", *size, " bytes long, ", count, " were expected at ", offset));
  }
  out->resize(count);
  for (uint64_t done = 0; done < count;) {
    const ssize_t got = pread(fd_, &(*out)[done], count - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    // What the disk cannot give back is lost; asking again is no use.
    if (got < 0 && errno == EIO) return absl::DataLossError(absl::StrCat("read ", path_, ": ", std::strerror(errno)));
    if (got < 0) return SystemError("read", path_);
    if (got == 0) return absl::DataLossError(absl::StrCat(path_, ": became shorter while it was read"));
    done += static_cast<uint64_t>(got);
  }
  return absl::OkStatus();
}

absl::Status File::Append(absl::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = write(fd_, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return SystemError("write", path_);
    bytes.remove_prefix(static_cast<size_t>(put));
    written_ += static_cast<uint64_t>(put);
  }
  if (written_ - flushed_ >= kFlushBytes) {
    // Advice: where the file system has no such thing, the last fsync does it all. Waits for the stretch before, starts
    // this one.
    const uint64_t before = flushed_ >= kFlushBytes ? kFlushBytes : flushed_;
    (void)sync_file_range(fd_, static_cast<off_t>(flushed_ - before), static_cast<off_t>(before),
                          SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER);
    (void)sync_file_range(fd_, static_cast<off_t>(flushed_), static_cast<off_t>(written_ - flushed_),
                          SYNC_FILE_RANGE_WRITE);
    flushed_ = written_;
  }
  return absl::OkStatus();
}

absl::Status File::SyncAndClose() {
  if (fsync(fd_) != 0) return SystemError("fsync", path_);
  const int fd = fd_;
  fd_ = -1;
  return close(fd) == 0 ? absl::OkStatus() : SystemError("close", path_);
}

absl::Status MakeDirectories(const std::string& path) {
  std::error_code error;
  std::filesystem::create_directories(path, error);
  if (!error) return absl::OkStatus();
  errno = error.value();
  return SystemError("make directory", path);
}

absl::Status SyncFile(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return SystemError("open", path);
  const absl::Status status = fsync(fd) == 0 ? absl::OkStatus() : SystemError("fsync", path);
  close(fd);
  return status;
}

absl::Status SyncDirectory(const std::string& path) { return SyncFile(path); }

}  // namespace shoal
