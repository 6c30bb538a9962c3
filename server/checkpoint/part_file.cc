#include "server/checkpoint/part_file.h"

#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/hash.h"
#include "base/status_macros.h"

namespace shoal {
namespace {

// Magic, version and length of the body, which say how long the header is.
constexpr uint64_t kHeaderStartBytes = 16;
constexpr uint64_t kChecksumBytes = 8;
constexpr uint64_t kReadBytes = 4 << 20;

absl::Status In(const std::string& path, const absl::Status& status) {
  return absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
}

}  // namespace

std::string PartFileName(absl::string_view server) {
  std::string out(server.empty() ? absl::string_view("server") : server);
  for (char& c : out) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '.' && c != '_' && c != '-') c = '_';
  }
  return out + ".part";
}

void DiscardPart(const std::string& dir, const std::string& file) {
  (void)unlink(absl::StrCat(dir, "/", file).c_str());
  (void)rmdir(dir.c_str());
}

struct PartWriter::Hasher {
  XXH64_state_t* state = XXH64_createState();
  Hasher() { XXH64_reset(state, 0); }
  ~Hasher() { XXH64_freeState(state); }
};

PartWriter::PartWriter(std::string dir, std::unique_ptr<File> file)
    : dir_(std::move(dir)), file_(std::move(file)), hasher_(std::make_unique<Hasher>()) {}

PartWriter::~PartWriter() = default;

absl::StatusOr<std::unique_ptr<PartWriter>> PartWriter::Create(const std::string& dir, const std::string& file,
                                                               const PartHeader& header) {
  SHOAL_RETURN_IF_ERROR(MakeDirectories(dir));
  SHOAL_ASSIGN_OR_RETURN(std::unique_ptr<File> out, File::Create(absl::StrCat(dir, "/", file)));
  auto writer = std::unique_ptr<PartWriter>(new PartWriter(dir, std::move(out)));
  SHOAL_RETURN_IF_ERROR(writer->Append(EncodePartHeader(header)));
  return writer;
}

absl::Status PartWriter::Append(absl::string_view bytes) {
  XXH64_update(hasher_->state, bytes.data(), bytes.size());
  bytes_ += bytes.size();
  return file_->Append(bytes);
}

absl::Status PartWriter::Add(PartEntry entry, absl::string_view section) {
  entry.offset = bytes_;
  entry.bytes = section.size();
  entry.checksum = HashBytes(section);
  entries_.push_back(entry);
  return Append(section);
}

absl::Status PartWriter::Finish() {
  SHOAL_RETURN_IF_ERROR(Append(EncodePartIndex(entries_, bytes_)));
  SHOAL_RETURN_IF_ERROR(file_->SyncAndClose());
  return SyncDirectory(dir_);
}

uint64_t PartWriter::checksum() const { return XXH64_digest(hasher_->state); }

absl::StatusOr<std::unique_ptr<PartFile>> PartFile::Open(const std::string& path, uint64_t expected_bytes) {
  SHOAL_ASSIGN_OR_RETURN(std::unique_ptr<File> file, File::OpenToRead(path));
  auto part = std::unique_ptr<PartFile>(new PartFile(path, std::move(file)));
  const absl::Status loaded = part->Load(expected_bytes);
  if (!loaded.ok()) return In(path, loaded);
  return part;
}

absl::Status PartFile::Load(uint64_t expected_bytes) {
  SHOAL_ASSIGN_OR_RETURN(bytes_, file_->Size());
  if (bytes_ != expected_bytes) {
    return absl::DataLossError(absl::StrCat("holds ", bytes_, " bytes, the manifest says ", expected_bytes));
  }
  std::string buffer;
  SHOAL_RETURN_IF_ERROR(file_->ReadAt(0, std::min(bytes_, kHeaderStartBytes), &buffer));
  uint64_t header_bytes = buffer.size();
  if (buffer.size() == kHeaderStartBytes) {
    uint32_t body;
    std::memcpy(&body, buffer.data() + kHeaderStartBytes - sizeof(body), sizeof(body));
    header_bytes = std::min(bytes_, kHeaderStartBytes + body + kChecksumBytes);
  }
  SHOAL_RETURN_IF_ERROR(file_->ReadAt(0, header_bytes, &buffer));
  SHOAL_ASSIGN_OR_RETURN(header_, ParsePartHeader(buffer, &header_bytes));
  const uint64_t footer_bytes = std::min(bytes_, kPartFooterBytes);
  SHOAL_RETURN_IF_ERROR(file_->ReadAt(bytes_ - footer_bytes, footer_bytes, &buffer));
  SHOAL_ASSIGN_OR_RETURN(const PartFooter footer, ParsePartFooter(buffer, bytes_));
  SHOAL_RETURN_IF_ERROR(file_->ReadAt(footer.index_offset, footer.index_bytes, &buffer));
  SHOAL_ASSIGN_OR_RETURN(entries_, ParsePartIndex(buffer, footer, header_.partitions));
  return absl::OkStatus();
}

absl::Status PartFile::ReadSection(const PartEntry& entry, std::string* out) const {
  return file_->ReadAt(entry.offset, entry.bytes, out);
}

absl::StatusOr<uint64_t> PartFile::Checksum() const {
  XXH64_state_t* state = XXH64_createState();
  XXH64_reset(state, 0);
  std::string buffer;
  absl::Status status;
  for (uint64_t at = 0; at < bytes_ && status.ok(); at += buffer.size()) {
    status = file_->ReadAt(at, std::min(kReadBytes, bytes_ - at), &buffer);
    if (status.ok()) XXH64_update(state, buffer.data(), buffer.size());
  }
  const uint64_t sum = XXH64_digest(state);
  XXH64_freeState(state);
  if (!status.ok()) return status;
  return sum;
}

}  // namespace shoal
