// NumPy's .npz: a zip archive of arrays.
#ifndef SHOAL_LOCAL_NPZ_WRITER_H_
#define SHOAL_LOCAL_NPZ_WRITER_H_

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace shoal {

// One array that grows row by row in a temporary file, so that many can grow at once and none need fit in memory. Not
// thread-safe.
class NpyColumn {
 public:
  // `type`: NumPy's, "<f4", "<u8" ... `row_shape`: extents of a row; empty: a scalar. `dir`: where the temporary file
  // lies, which has no name.
  static absl::StatusOr<std::unique_ptr<NpyColumn>> Create(const std::string& dir, std::string name, std::string type,
                                                           std::vector<uint64_t> row_shape);
  ~NpyColumn();
  NpyColumn(const NpyColumn&) = delete;
  NpyColumn& operator=(const NpyColumn&) = delete;

  // REQUIRES: the bytes of whole rows.
  absl::Status Append(const void* bytes, uint64_t count);

 private:
  friend class NpzWriter;
  NpyColumn(std::string name, std::string type, std::vector<uint64_t> row_shape, std::FILE* file)
      : name_(std::move(name)), type_(std::move(type)), row_shape_(std::move(row_shape)), file_(file) {}

  const std::string name_;
  const std::string type_;
  const std::vector<uint64_t> row_shape_;
  std::FILE* const file_;
  uint64_t bytes_ = 0;
  uint64_t crc_ = 0;  // CRC-32 of the data
};

// Writes columns, uncompressed, as members of one archive (zip64 where a member or the archive needs it). Not
// thread-safe.
class NpzWriter {
 public:
  // Replaces the file.
  static absl::StatusOr<std::unique_ptr<NpzWriter>> Create(const std::string& path);
  ~NpzWriter();
  // As member <name>.npy. `whole`: the array's extents when they are not rows of the column's shape (a tensor).
  absl::Status Add(NpyColumn* column, const std::vector<uint64_t>& whole = {});
  absl::Status Finish();

 private:
  struct Member {
    std::string name;
    uint64_t bytes = 0;
    uint64_t crc = 0;
    uint64_t offset = 0;
  };
  NpzWriter(std::string path, std::FILE* file) : path_(std::move(path)), file_(file) {}
  absl::Status Write(absl::string_view bytes);

  const std::string path_;
  std::FILE* file_;
  std::vector<Member> members_;
  uint64_t at_ = 0;
};

}  // namespace shoal

#endif  // SHOAL_LOCAL_NPZ_WRITER_H_
