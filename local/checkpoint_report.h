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

}  // namespace shoal

#endif  // SHOAL_LOCAL_CHECKPOINT_REPORT_H_
