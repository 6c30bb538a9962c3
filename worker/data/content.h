// The decompressed bytes of one input file, at any offset.
#ifndef SHOAL_WORKER_DATA_CONTENT_H_
#define SHOAL_WORKER_DATA_CONTENT_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/mutex.h"

namespace shoal {

// One input file: plain files are read in place, gzip and zstd files (known by their first bytes, not by their names)
// from an unlinked scratch file into which Open decompresses them once. Memory does not depend on the file's size.
// Thread-safe; shared by the readers of the file's splits.
class FileContent {
 public:
  // Fails, naming the file, when it cannot be read, or when compressed bytes are damaged or end too early.
  static absl::StatusOr<std::shared_ptr<const FileContent>> Open(const std::string& path);
  ~FileContent();
  FileContent(const FileContent&) = delete;
  FileContent& operator=(const FileContent&) = delete;

  const std::string& path() const { return path_; }
  uint64_t file_bytes() const { return file_bytes_; }
  uint64_t size() const { return size_; }

  // Copies bytes [offset, offset + count) to `out`; DATA_LOSS when the file has become shorter.
  absl::Status ReadAt(uint64_t offset, uint64_t count, char* out) const;
  // XXH64 of all bytes; reads them.
  absl::StatusOr<uint64_t> Hash() const;
  // Number of the line (from 1) in which `offset` lies. Counts newlines, so for error messages only; what it counted
  // is remembered per MiB.
  absl::StatusOr<uint64_t> LineOf(uint64_t offset) const;

 private:
  FileContent(std::string path, int fd, uint64_t file_bytes);

  const std::string path_;
  int fd_;  // the file itself, or the scratch file
  const uint64_t file_bytes_;
  uint64_t size_;

  mutable Mutex mu_;
  mutable std::vector<uint64_t> lines_before_ ABSL_GUARDED_BY(mu_) = {0};  // newlines before each MiB
};

// Decompresses the gzip or zstd bytes of `in_fd` to `out_fd`; several members or frames are joined. `path` is for
// messages. Returns false, having written nothing, when the file starts with neither magic number.
absl::StatusOr<bool> Decompress(const std::string& path, int in_fd, int out_fd);

}  // namespace shoal

#endif  // SHOAL_WORKER_DATA_CONTENT_H_
