#include "server/checkpoint/manifest_file.h"

#include <google/protobuf/util/json_util.h>

#include "absl/strings/str_cat.h"
#include "base/hash.h"
#include "base/status_macros.h"
#include "server/checkpoint/byte_reader.h"
#include "server/checkpoint/file_io.h"
#include "server/checkpoint/part_format.h"

namespace shoal {
namespace {

constexpr absl::string_view kManifestMagic = "SHOALMAN";

absl::Status WriteFile(const std::string& path, const std::string& bytes) {
  SHOAL_ASSIGN_OR_RETURN(const std::unique_ptr<File> file, File::Create(path));
  SHOAL_RETURN_IF_ERROR(file->Append(bytes));
  return file->SyncAndClose();
}

absl::StatusOr<std::string> ReadFile(const std::string& path) {
  SHOAL_ASSIGN_OR_RETURN(const std::unique_ptr<File> file, File::OpenToRead(path));
  SHOAL_ASSIGN_OR_RETURN(const uint64_t size, file->Size());
  std::string bytes;
  SHOAL_RETURN_IF_ERROR(file->ReadAt(0, size, &bytes));
  return bytes;
}

}  // namespace

std::string EncodeManifest(const Manifest& manifest) {
  const std::string body = manifest.SerializeAsString();
  std::string out(kManifestMagic);
  AppendValue(&out, kCheckpointFormatVersion);
  AppendValue(&out, uint32_t{0});
  AppendValue(&out, static_cast<uint64_t>(body.size()));
  AppendValue(&out, HashBytes(body));
  return out + body;
}

absl::StatusOr<Manifest> ParseManifest(absl::string_view bytes) {
  ByteReader in(bytes);
  absl::string_view magic, body;
  uint32_t version, zero;
  uint64_t size, checksum;
  if (!in.Take(kManifestMagic.size(), &magic) || magic != kManifestMagic) {
    return absl::DataLossError("not a manifest");
  }
  if (!in.Read(&version) || !in.Read(&zero)) return absl::DataLossError("cut short");
  if (version != kCheckpointFormatVersion) {
    return absl::DataLossError(
        absl::StrCat("format version ", version, ", this program reads ", kCheckpointFormatVersion));
  }
  if (!in.Read(&size) || !in.Read(&checksum) || in.left() != size || !in.Take(size, &body)) {
    return absl::DataLossError("its length is not what it says");
  }
  if (HashBytes(body) != checksum) return absl::DataLossError("checksum differs");
  Manifest manifest;
  if (!manifest.ParseFromArray(body.data(), static_cast<int>(body.size()))) {
    return absl::DataLossError("not a Manifest message");
  }
  for (const PartInfo& part : manifest.parts()) {
    if (part.file().empty() || part.file().find('/') != std::string::npos) {
      return absl::DataLossError(absl::StrCat("part file '", part.file(), "' must be a name without '/'"));
    }
  }
  return manifest;
}

absl::Status WriteManifestFiles(const std::string& dir, const Manifest& manifest) {
  std::string json;
  google::protobuf::util::JsonPrintOptions options;
  options.add_whitespace = true;
  options.preserve_proto_field_names = true;
  const auto printed = google::protobuf::util::MessageToJsonString(manifest, &json, options);
  if (!printed.ok()) return absl::InternalError(absl::StrCat("manifest.json: ", std::string(printed.message())));
  SHOAL_RETURN_IF_ERROR(WriteFile(absl::StrCat(dir, "/", kManifestJson), json));
  return WriteFile(absl::StrCat(dir, "/", kManifestFile), EncodeManifest(manifest));
}

absl::StatusOr<uint64_t> ManifestChecksum(const std::string& dir) {
  SHOAL_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(absl::StrCat(dir, "/", kManifestFile)));
  return HashBytes(bytes);
}

absl::StatusOr<Manifest> ReadManifestFile(const std::string& dir) {
  const std::string path = absl::StrCat(dir, "/", kManifestFile);
  SHOAL_ASSIGN_OR_RETURN(const std::string bytes, ReadFile(path));
  absl::StatusOr<Manifest> manifest = ParseManifest(bytes);
  if (manifest.ok()) return manifest;
  return absl::Status(manifest.status().code(), absl::StrCat(path, ": ", manifest.status().message()));
}

}  // namespace shoal
