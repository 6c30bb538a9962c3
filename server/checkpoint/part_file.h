// Parts of checkpoints as files.
#ifndef SHOAL_SERVER_CHECKPOINT_PART_FILE_H_
#define SHOAL_SERVER_CHECKPOINT_PART_FILE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "server/checkpoint/file_io.h"
#include "server/checkpoint/part_format.h"

namespace shoal {

// File name of a server's part: its name with everything but letters, digits, '.', '_' and '-' replaced.
std::string PartFileName(absl::string_view server);

// Removes an unfinished part, and its directory if that was all. Failures don't matter: the next checkpoint tries
// again.
void DiscardPart(const std::string& dir, const std::string& file);

// Writes one part, section by section. Not thread-safe.
class PartWriter {
 public:
  // Makes the directory if absent and replaces an older file of that name.
  static absl::StatusOr<std::unique_ptr<PartWriter>> Create(const std::string& dir, const std::string& file,
                                                            const PartHeader& header);
  ~PartWriter();
  // `entry`: partition, rows and counted; the rest is filled in. REQUIRES: ascending partitions.
  absl::Status Add(PartEntry entry, absl::string_view section);
  // Index, footer, fsync of file and directory.
  absl::Status Finish();
  uint64_t bytes() const { return bytes_; }
  // XXH64 of the whole file, after Finish.
  uint64_t checksum() const;

 private:
  PartWriter(std::string dir, std::unique_ptr<File> file);
  absl::Status Append(absl::string_view bytes);

  const std::string dir_;
  const std::unique_ptr<File> file_;
  struct Hasher;
  const std::unique_ptr<Hasher> hasher_;
  std::vector<PartEntry> entries_;
  uint64_t bytes_ = 0;
};

// Reads one part. Immutable after Open; ReadSection may be called from several threads.
class PartFile {
 public:
  // Reads and checks header and index; `expected_bytes` is what the manifest says. Errors name the file.
  static absl::StatusOr<std::unique_ptr<PartFile>> Open(const std::string& path, uint64_t expected_bytes);
  const PartHeader& header() const { return header_; }
  const std::vector<PartEntry>& entries() const { return entries_; }
  // The bytes of a section, not checked yet (ParseSection does).
  absl::Status ReadSection(const PartEntry& entry, std::string* out) const;
  // XXH64 of the whole file.
  absl::StatusOr<uint64_t> Checksum() const;

 private:
  PartFile(std::string path, std::unique_ptr<File> file) : path_(std::move(path)), file_(std::move(file)) {}
  absl::Status Load(uint64_t expected_bytes);

  const std::string path_;
  const std::unique_ptr<File> file_;
  PartHeader header_;
  std::vector<PartEntry> entries_;
  uint64_t bytes_ = 0;
};

}  // namespace shoal

#endif  // SHOAL_SERVER_CHECKPOINT_PART_FILE_H_
