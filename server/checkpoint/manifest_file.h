// The manifest of a checkpoint as a file.
#ifndef SHOAL_SERVER_CHECKPOINT_MANIFEST_FILE_H_
#define SHOAL_SERVER_CHECKPOINT_MANIFEST_FILE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "proto/checkpoint.pb.h"

namespace shoal {

// Names in a checkpoint's directory. The binary file is the one that is read: it keeps 64-bit numbers and bytes exactly
// and carries a checksum; the JSON beside it is for people and scripts, and nothing of ours reads it.
inline constexpr char kManifestFile[] = "manifest.bin";
inline constexpr char kManifestJson[] = "manifest.json";

// Writes and fsyncs both files into `dir`.
absl::Status WriteManifestFiles(const std::string& dir, const Manifest& manifest);
// NOT_FOUND when there is none; DATA_LOSS says what is damaged.
absl::StatusOr<Manifest> ReadManifestFile(const std::string& dir);

// XXH64 of the manifest file's bytes: what a delta remembers of its parent.
absl::StatusOr<uint64_t> ManifestChecksum(const std::string& dir);

// Bytes of manifest.bin.
std::string EncodeManifest(const Manifest& manifest);
absl::StatusOr<Manifest> ParseManifest(absl::string_view bytes);

}  // namespace shoal

#endif  // SHOAL_SERVER_CHECKPOINT_MANIFEST_FILE_H_
