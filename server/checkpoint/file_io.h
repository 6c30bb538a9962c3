// Files whose bytes are on disk when we say so.
#ifndef SHOAL_SERVER_CHECKPOINT_FILE_IO_H_
#define SHOAL_SERVER_CHECKPOINT_FILE_IO_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace shoal {

// A file being read or written; closes itself. Not thread-safe. Every error names the path and the system's reason.
class File {
 public:
  static absl::StatusOr<std::unique_ptr<File>> OpenToRead(const std::string& path);
  // Truncates what was there.
  static absl::StatusOr<std::unique_ptr<File>> Create(const std::string& path);
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  absl::StatusOr<uint64_t> Size() const;
  // Exactly `count` bytes at `offset`; DATA_LOSS when the file is shorter.
  absl::Status ReadAt(uint64_t offset, uint64_t count, std::string* out) const;
  // Keeps the bytes that the disk has not got yet few, so that neither the machine's memory fills with them nor the
  // last sync takes long.
  absl::Status Append(absl::string_view bytes);
  // On disk, then closed.
  absl::Status SyncAndClose();

 private:
  File(std::string path, int fd) : path_(std::move(path)), fd_(fd) {}
  const std::string path_;
  int fd_;
  uint64_t written_ = 0;
  uint64_t flushed_ = 0;  // handed to the disk
};

// errno as a status: what was tried on which path.
absl::Status SystemError(absl::string_view action, const std::string& path);
absl::Status MakeDirectories(const std::string& path);
// Makes names in a directory durable.
absl::Status SyncDirectory(const std::string& path);
absl::Status SyncFile(const std::string& path);

}  // namespace shoal

#endif  // SHOAL_SERVER_CHECKPOINT_FILE_IO_H_
