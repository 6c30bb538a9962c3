#include "local/npz_writer.h"

#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace shoal {
namespace {

// The fields of zip and npy that are needed here are little-endian and so are we (byte_reader.h).
template <typename T>
void Put(std::string* out, T value) {
  out->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

constexpr uint32_t kFull32 = 0xffffffffu;
constexpr uint16_t kZip64Id = 1;
constexpr uint16_t kVersion = 45;      // of zip: the first with zip64
constexpr uint16_t kDosDate = 0x0021;  // 1980-01-01: the same archive for the same arrays
constexpr uint64_t kCopyBytes = 1 << 20;
// The data of an .npy member starts at a multiple of it, so that it can be mapped.
constexpr uint64_t kAlign = 64;

absl::Status SystemFailure(absl::string_view action, const std::string& path) {
  const absl::string_view reason = std::strerror(errno);
  return errno == ENOSPC ? absl::ResourceExhaustedError(absl::StrCat(action, " ", path, ": ", reason))
                         : absl::UnavailableError(absl::StrCat(action, " ", path, ": ", reason));
}

uint32_t Low(uint64_t value) { return value >= kFull32 ? kFull32 : static_cast<uint32_t>(value); }

// `shape` written as Python writes a tuple.
std::string NpyHeader(const std::string& type, const std::vector<uint64_t>& shape) {
  std::string extents;
  for (uint64_t extent : shape) absl::StrAppend(&extents, extent, shape.size() == 1 ? "," : ", ");
  if (shape.size() > 1) extents.resize(extents.size() - 2);
  std::string text = absl::StrCat("{'descr': '", type, "', 'fortran_order': False, 'shape': (", extents, "), }");
  constexpr uint64_t kBefore = 10;  // magic, version, length
  text.resize((kBefore + text.size() + 1 + kAlign - 1) / kAlign * kAlign - kBefore - 1, ' ');
  text += '\n';
  std::string out("\x93NUMPY\x01\x00", 8);
  Put(&out, static_cast<uint16_t>(text.size()));
  return out + text;
}

}  // namespace

absl::StatusOr<std::unique_ptr<NpyColumn>> NpyColumn::Create(const std::string& dir, std::string name, std::string type,
                                                             std::vector<uint64_t> row_shape) {
  // Beside the result: what has room for that has room for this.
  std::string path = absl::StrCat(dir, "/.shoal-export-XXXXXX");
  const int fd = mkstemp(&path[0]);
  if (fd < 0) return SystemFailure("create a file in", dir);
  (void)unlink(path.c_str());
  std::FILE* const file = fdopen(fd, "w+b");
  if (file == nullptr) {
    close(fd);
    return SystemFailure("open", path);
  }
  return std::unique_ptr<NpyColumn>(new NpyColumn(std::move(name), std::move(type), std::move(row_shape), file));
}

NpyColumn::~NpyColumn() { std::fclose(file_); }

absl::Status NpyColumn::Append(const void* bytes, uint64_t count) {
  if (std::fwrite(bytes, 1, count, file_) != count) return SystemFailure("write", "a temporary file");
  bytes_ += count;
  // zlib takes 32-bit lengths.
  const auto* at = static_cast<const Bytef*>(bytes);
  while (count > 0) {
    const uint64_t step = std::min(count, kCopyBytes);
    crc_ = crc32(crc_, at, static_cast<uInt>(step));
    at += step;
    count -= step;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<NpzWriter>> NpzWriter::Create(const std::string& path) {
  std::FILE* const file = std::fopen(path.c_str(), "wb");
  if (file == nullptr) return SystemFailure("create", path);
  return std::unique_ptr<NpzWriter>(new NpzWriter(path, file));
}

NpzWriter::~NpzWriter() {
  if (file_ != nullptr) std::fclose(file_);
}

absl::Status NpzWriter::Write(absl::string_view bytes) {
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_) != bytes.size()) return SystemFailure("write", path_);
  at_ += bytes.size();
  return absl::OkStatus();
}

absl::Status NpzWriter::Add(NpyColumn* column, const std::vector<uint64_t>& whole) {
  std::vector<uint64_t> shape = whole;
  if (whole.empty()) {
    uint64_t row_bytes = static_cast<uint64_t>(column->type_.back() - '0');
    for (uint64_t extent : column->row_shape_) row_bytes *= extent;
    shape = {row_bytes == 0 ? 0 : column->bytes_ / row_bytes};
    shape.insert(shape.end(), column->row_shape_.begin(), column->row_shape_.end());
  }
  const std::string npy = NpyHeader(column->type_, shape);
  Member member;
  member.name = column->name_ + ".npy";
  member.bytes = npy.size() + column->bytes_;
  member.crc = crc32_combine(crc32(0, reinterpret_cast<const Bytef*>(npy.data()), static_cast<uInt>(npy.size())),
                             column->crc_, static_cast<z_off_t>(column->bytes_));
  member.offset = at_;
  std::string local;
  Put(&local, uint32_t{0x04034b50});
  Put(&local, kVersion);
  Put(&local, uint16_t{0});  // flags
  Put(&local, uint16_t{0});  // stored
  Put(&local, uint16_t{0});  // time
  Put(&local, kDosDate);
  Put(&local, static_cast<uint32_t>(member.crc));
  Put(&local, kFull32);  // sizes: in the zip64 field, always, so that all members look alike
  Put(&local, kFull32);
  Put(&local, static_cast<uint16_t>(member.name.size()));
  Put(&local, uint16_t{20});
  local += member.name;
  Put(&local, kZip64Id);
  Put(&local, uint16_t{16});
  Put(&local, member.bytes);
  Put(&local, member.bytes);
  SHOAL_RETURN_IF_ERROR(Write(local));
  SHOAL_RETURN_IF_ERROR(Write(npy));
  if (std::fflush(column->file_) != 0 || std::fseek(column->file_, 0, SEEK_SET) != 0) {
    return SystemFailure("read", "a temporary file");
  }
  std::string buffer(kCopyBytes, '\0');
  for (uint64_t left = column->bytes_; left > 0;) {
    const uint64_t step = std::min(left, kCopyBytes);
    if (std::fread(&buffer[0], 1, step, column->file_) != step) return SystemFailure("read", "a temporary file");
    SHOAL_RETURN_IF_ERROR(Write(absl::string_view(buffer).substr(0, step)));
    left -= step;
  }
  members_.push_back(std::move(member));
  return absl::OkStatus();
}

absl::Status NpzWriter::Finish() {
  const uint64_t directory = at_;
  for (const Member& member : members_) {
    std::string entry;
    Put(&entry, uint32_t{0x02014b50});
    Put(&entry, kVersion);
    Put(&entry, kVersion);
    Put(&entry, uint16_t{0});
    Put(&entry, uint16_t{0});
    Put(&entry, uint16_t{0});
    Put(&entry, kDosDate);
    Put(&entry, static_cast<uint32_t>(member.crc));
    Put(&entry, kFull32);
    Put(&entry, kFull32);
    Put(&entry, static_cast<uint16_t>(member.name.size()));
    Put(&entry, uint16_t{28});
    Put(&entry, uint16_t{0});  // comment
    Put(&entry, uint16_t{0});  // disk
    Put(&entry, uint16_t{0});  // attributes
    Put(&entry, uint32_t{0});
    Put(&entry, kFull32);  // offset: in the zip64 field
    entry += member.name;
    Put(&entry, kZip64Id);
    Put(&entry, uint16_t{24});
    Put(&entry, member.bytes);
    Put(&entry, member.bytes);
    Put(&entry, member.offset);
    SHOAL_RETURN_IF_ERROR(Write(entry));
  }
  const uint64_t directory_bytes = at_ - directory, end64 = at_;
  const uint64_t count = members_.size();
  std::string end;
  Put(&end, uint32_t{0x06064b50});  // zip64 end of the central directory
  Put(&end, uint64_t{44});
  Put(&end, kVersion);
  Put(&end, kVersion);
  Put(&end, uint32_t{0});
  Put(&end, uint32_t{0});
  Put(&end, count);
  Put(&end, count);
  Put(&end, directory_bytes);
  Put(&end, directory);
  Put(&end, uint32_t{0x07064b50});  // its locator
  Put(&end, uint32_t{0});
  Put(&end, end64);
  Put(&end, uint32_t{1});
  Put(&end, uint32_t{0x06054b50});  // end of the central directory
  Put(&end, uint16_t{0});
  Put(&end, uint16_t{0});
  Put(&end, static_cast<uint16_t>(std::min<uint64_t>(count, 0xffff)));
  Put(&end, static_cast<uint16_t>(std::min<uint64_t>(count, 0xffff)));
  Put(&end, Low(directory_bytes));
  Put(&end, Low(directory));
  Put(&end, uint16_t{0});
  SHOAL_RETURN_IF_ERROR(Write(end));
  std::FILE* const file = file_;
  file_ = nullptr;
  return std::fclose(file) == 0 ? absl::OkStatus() : SystemFailure("write", path_);
}

}  // namespace shoal
