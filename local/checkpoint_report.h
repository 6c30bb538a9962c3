// What `shoal checkpoint` shows.
#ifndef SHOAL_LOCAL_CHECKPOINT_REPORT_H_
#define SHOAL_LOCAL_CHECKPOINT_REPORT_H_

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "proto/checkpoint.pb.h"

namespace shoal {

// One line per checkpoint, oldest first.
std::string CheckpointListText(const std::vector<std::pair<std::string, Manifest>>& checkpoints);
nlohmann::ordered_json CheckpointListJson(const std::vector<std::pair<std::string, Manifest>>& checkpoints);

// Job, tables, parts.
std::string ManifestText(const std::string& dir, const Manifest& manifest);
nlohmann::ordered_json ManifestJson(const std::string& dir, const Manifest& manifest);

// The first `limit` rows of each table, one line each: table, key, weights, optimizer state.
absl::StatusOr<std::string> RowsText(const std::string& dir, uint64_t limit);

// A checkpoint that was read from end to end, and what is wrong with it.
struct CheckedCheckpoint {
  std::string path;
  absl::Status status;
};
// Each checkpoint of a directory (or the one that it is), by name, so oldest first; damaged ones too. NOT_FOUND when
// there is none.
absl::StatusOr<std::vector<CheckedCheckpoint>> VerifyEach(const std::string& dir);
std::string CheckedText(const std::vector<CheckedCheckpoint>& checked);
nlohmann::ordered_json CheckedJson(const std::vector<CheckedCheckpoint>& checked);
// How many are damaged, in one line; OK: none.
absl::Status CheckedStatus(const std::string& dir, const std::vector<CheckedCheckpoint>& checked);

}  // namespace shoal

#endif  // SHOAL_LOCAL_CHECKPOINT_REPORT_H_
