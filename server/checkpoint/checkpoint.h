// Checkpoints on disk (docs/checkpoint-format.md): a directory of parts plus a manifest.
#ifndef SHOAL_SERVER_CHECKPOINT_CHECKPOINT_H_
#define SHOAL_SERVER_CHECKPOINT_CHECKPOINT_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "proto/checkpoint.pb.h"

namespace shoal {

// Checks that `dir` can be written: makes it if absent, writes, fsyncs and removes a small file.
absl::Status CheckWritable(const std::string& dir);

// Second half of a checkpoint: writes the manifest into <dir>/<name>.tmp, fsyncs files and directories, renames to
// <dir>/<name>, then removes all but the newest `keep` complete checkpoints (by sequence) and those that they build on.
// Of a delta's parent only the name need be set; it must be there. Returns the directory.
absl::StatusOr<std::string> CommitCheckpoint(const std::string& dir, const std::string& name, const Manifest& manifest,
                                             uint32_t keep);

// Removes what checkpoints of `dir` left that were never finished and came before `name` (a server died, a disk was
// full): <earlier name>.tmp. Errors are ignored, the next checkpoint tries again.
void RemoveAbandoned(const std::string& dir, const std::string& name);

// Reads and checks the manifest of one checkpoint directory; `path` may also be a directory of checkpoints, whose
// newest complete one is taken (its directory is returned through *resolved).
absl::StatusOr<Manifest> ReadManifest(const std::string& path, std::string* resolved);
// All complete checkpoints of a directory, oldest first: (directory, manifest).
absl::StatusOr<std::vector<std::pair<std::string, Manifest>>> ListCheckpoints(const std::string& dir);
// What was a checkpoint of the directory but has a manifest that is damaged or gone, by name: (directory, what is
// wrong).
absl::StatusOr<std::vector<std::pair<std::string, absl::Status>>> ListDamaged(const std::string& dir);
// DATA_LOSS when the newest checkpoint of a directory of them has such a manifest, so that all else passes it over. OK
// when `dir` is a checkpoint itself.
absl::Status CheckNewest(const std::string& dir);
// The highest N of all entries of the directory that are called ckpt-N, whatever they hold: a damaged checkpoint
// occupies its name as well, an unfinished one does not. 0: none.
absl::StatusOr<uint64_t> HighestCheckpointNumber(const std::string& dir);
// Every part, of what a delta builds on too, is there, has its size and checksum, and parses; rows, versions and
// digests add up to what the manifests say. All problems are named in one status. Of a directory of checkpoints the
// newest one is looked at, whether or not it can be read.
absl::Status VerifyCheckpoint(const std::string& dir);

// One row of a sparse table (dense = false) or one dense block (key = block index, offset in the tensor).
struct CheckpointRow {
  absl::string_view table;
  bool dense = false;
  uint64_t key = 0;
  absl::string_view slot;  // of a sparse row: its name; empty when the job has none
  uint64_t offset = 0;     // dense: of the block in its tensor
  absl::Span<const float> weights;
  absl::Span<const float> state;  // of the optimizer
};
// Visits all rows of the model, through what a delta builds on (for tools).
absl::Status VisitRows(const std::string& dir, const std::function<void(const CheckpointRow&)>& visit);

}  // namespace shoal

#endif  // SHOAL_SERVER_CHECKPOINT_CHECKPOINT_H_
