#include "local/checkpoint_report.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "base/status_macros.h"
#include "server/checkpoint/checkpoint.h"

namespace shoal {
namespace {

using Json = nlohmann::ordered_json;

uint64_t TotalBytes(const Manifest& manifest) {
  uint64_t bytes = 0;
  for (const PartInfo& part : manifest.parts()) bytes += part.bytes();
  return bytes;
}

// The most advanced partition; all are equal once a job is complete.
uint64_t Examples(const Manifest& manifest) {
  uint64_t examples = 0;
  for (const PartInfo& part : manifest.parts()) {
    for (const PartitionDone& done : part.done()) examples = std::max<uint64_t>(examples, done.examples());
  }
  return examples;
}

std::string ShapeText(const TensorSpec& tensor) {
  std::string text;
  for (const uint64_t extent : tensor.shape()) absl::StrAppend(&text, text.empty() ? "" : "x", extent);
  return text;
}

void AppendFloats(absl::Span<const float> values, std::string* text) {
  // A wide row would fill the screen.
  constexpr size_t kShown = 8;
  for (size_t i = 0; i < std::min(kShown, values.size()); ++i) absl::StrAppendFormat(text, " %.6g", values[i]);
  if (values.size() > kShown) absl::StrAppend(text, " ... (", values.size(), ")");
}

// Adam and AMSGrad end their state with a step count whose bits stand in place of a float (docs/checkpoint-format.md).
bool EndsWithSteps(const Optimizer& optimizer) { return optimizer.has_adam() || optimizer.has_amsgrad(); }

void AppendState(absl::Span<const float> state, const Optimizer& optimizer, std::string* text) {
  if (state.empty()) return;
  absl::StrAppend(text, " | state");
  if (!EndsWithSteps(optimizer)) return AppendFloats(state, text);
  AppendFloats(state.subspan(0, state.size() - 1), text);
  uint32_t steps;
  std::memcpy(&steps, &state.back(), sizeof(steps));
  absl::StrAppend(text, " t ", steps);
}

}  // namespace

std::string CheckpointListText(const std::vector<std::pair<std::string, Manifest>>& checkpoints) {
  if (checkpoints.empty()) return "no checkpoints\n";
  std::string text = absl::StrFormat("%8s  %-6s %-14s %12s %12s  %-25s %s\n", "SEQUENCE", "FINAL", "PARENT", "EXAMPLES",
                                     "BYTES", "CREATED", "PATH");
  for (const auto& [dir, manifest] : checkpoints) {
    absl::StrAppendFormat(&text, "%8d  %-6s %-14s %12d %12d  %-25s %s\n", manifest.sequence(),
                          manifest.final() ? "yes" : "no", manifest.parent().empty() ? "-" : manifest.parent(),
                          Examples(manifest), TotalBytes(manifest), manifest.created(), dir);
  }
  return text;
}

nlohmann::ordered_json CheckpointListJson(const std::vector<std::pair<std::string, Manifest>>& checkpoints) {
  Json list = Json::array();
  for (const auto& [dir, manifest] : checkpoints) {
    list.push_back({{"path", dir},
                    {"job", manifest.job().name()},
                    {"sequence", manifest.sequence()},
                    {"final", manifest.final()},
                    {"parent", manifest.parent()},
                    {"examples", Examples(manifest)},
                    {"bytes", TotalBytes(manifest)},
                    {"created", manifest.created()}});
  }
  return {{"checkpoints", list}};
}

std::string ManifestText(const std::string& dir, const Manifest& manifest) {
  std::string text =
      absl::StrFormat("%s\n  job         %s (digest %s)\n  created     %s, sequence %d, run %d%s\n  examples    %d\n",
                      dir, manifest.job().name(), manifest.job_digest(), manifest.created(), manifest.sequence(),
                      manifest.run(), manifest.final() ? ", final" : "", Examples(manifest));
  if (!manifest.parent().empty()) {
    absl::StrAppend(&text, "  parent      ", manifest.parent(), " (a delta: rows and bytes are those that changed)\n");
  }
  if (manifest.rounds_applied() > 0) absl::StrAppend(&text, "  rounds      ", manifest.rounds_applied(), "\n");
  std::map<std::string, const TableDigest*> digests;
  for (const TableDigest& digest : manifest.digests()) digests[digest.table()] = &digest;
  for (const TableSpec& table : manifest.plan().model().tables()) {
    const auto digest = digests.find(table.name());
    absl::StrAppendFormat(&text, "  table       %-24s dim %d", table.name(), table.dim());
    if (digest != digests.end()) {
      absl::StrAppendFormat(&text, ", %d rows, digest %016x", digest->second->rows(), digest->second->sum());
    }
    absl::StrAppend(&text, "\n");
  }
  for (const TensorSpec& tensor : manifest.plan().model().tensors()) {
    absl::StrAppendFormat(&text, "  tensor      %-24s %s\n", tensor.name(), ShapeText(tensor));
  }
  for (const PartInfo& part : manifest.parts()) {
    absl::StrAppendFormat(&text, "  part        %-24s %d bytes, %d partitions, %d rows, %d keys\n", part.file(),
                          part.bytes(), part.partitions_size(), part.rows(), part.keys());
  }
  return text;
}

nlohmann::ordered_json ManifestJson(const std::string& dir, const Manifest& manifest) {
  Json tables = Json::array();
  for (const TableSpec& table : manifest.plan().model().tables()) {
    tables.push_back({{"name", table.name()}, {"dim", table.dim()}});
  }
  Json tensors = Json::array();
  for (const TensorSpec& tensor : manifest.plan().model().tensors()) {
    tensors.push_back(
        {{"name", tensor.name()}, {"shape", std::vector<uint64_t>(tensor.shape().begin(), tensor.shape().end())}});
  }
  Json digests = Json::object(), rows = Json::object();
  for (const TableDigest& digest : manifest.digests()) {
    digests[digest.table()] = absl::StrFormat("%016x", digest.sum());
    rows[digest.table()] = digest.rows();
  }
  Json parts = Json::array();
  for (const PartInfo& part : manifest.parts()) {
    parts.push_back({{"file", part.file()},
                     {"bytes", part.bytes()},
                     {"checksum", absl::StrFormat("%016x", part.checksum())},
                     {"partitions", part.partitions_size()},
                     {"rows", part.rows()},
                     {"keys", part.keys()}});
  }
  return {{"path", dir},
          {"format_version", manifest.format_version()},
          {"job", manifest.job().name()},
          {"job_digest", manifest.job_digest()},
          {"created", manifest.created()},
          {"sequence", manifest.sequence()},
          {"final", manifest.final()},
          {"parent", manifest.parent()},
          {"run", manifest.run()},
          {"rounds", manifest.rounds_applied()},
          {"examples", Examples(manifest)},
          {"tables", tables},
          {"tensors", tensors},
          {"rows", rows},
          {"digest", digests},
          {"parts", parts}};
}

absl::StatusOr<std::string> RowsText(const std::string& dir, uint64_t limit) {
  std::map<std::pair<std::string, bool>, uint64_t> shown;  // a tensor may bear a table's name
  std::string text, resolved;
  SHOAL_ASSIGN_OR_RETURN(const Manifest manifest, ReadManifest(dir, &resolved));
  const OptimizerPair& optimizer = manifest.job().optimizer();
  SHOAL_RETURN_IF_ERROR(VisitRows(resolved, [&](const CheckpointRow& row) {
    if (shown[{std::string(row.table), row.dense}]++ >= limit) return;
    absl::StrAppend(&text, row.table, row.dense ? " block " : " key ", row.key, row.slot.empty() ? "" : " of ",
                    row.slot, ":");
    AppendFloats(row.weights, &text);
    AppendState(row.state, row.dense ? optimizer.dense() : optimizer.sparse(), &text);
    absl::StrAppend(&text, "\n");
  }));
  return text;
}

absl::StatusOr<std::vector<CheckedCheckpoint>> VerifyEach(const std::string& dir) {
  SHOAL_ASSIGN_OR_RETURN(const auto complete, ListCheckpoints(dir));
  SHOAL_ASSIGN_OR_RETURN(const auto damaged, ListDamaged(dir));
  std::vector<CheckedCheckpoint> out;
  for (const auto& [path, manifest] : complete) out.push_back({path, VerifyCheckpoint(path)});
  for (const auto& [path, status] : damaged) out.push_back({path, status});
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.path < b.path; });
  if (!out.empty()) return out;
  std::string resolved;
  SHOAL_RETURN_IF_ERROR(ReadManifest(dir, &resolved).status());
  out.push_back({resolved, VerifyCheckpoint(resolved)});
  return out;
}

std::string CheckedText(const std::vector<CheckedCheckpoint>& checked) {
  std::string text;
  for (const CheckedCheckpoint& one : checked) {
    const std::string problem = absl::StrReplaceAll(one.status.message(), {{"\n", "\n  "}});
    absl::StrAppend(&text, one.path, one.status.ok() ? ": valid\n" : absl::StrCat(": damaged: ", problem, "\n"));
  }
  return text;
}

nlohmann::ordered_json CheckedJson(const std::vector<CheckedCheckpoint>& checked) {
  Json list = Json::array();
  for (const CheckedCheckpoint& one : checked) {
    list.push_back({{"path", one.path}, {"valid", one.status.ok()}});
    if (!one.status.ok()) list.back()["problem"] = std::string(one.status.message());
  }
  return {{"checkpoints", list}};
}

absl::Status CheckedStatus(const std::string& dir, const std::vector<CheckedCheckpoint>& checked) {
  const auto bad = std::count_if(checked.begin(), checked.end(), [](const auto& one) { return !one.status.ok(); });
  if (bad == 0) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(dir, ": ", bad, " of ", checked.size(),
                                          checked.size() == 1 ? " checkpoint" : " checkpoints",
                                          bad == 1 ? " is" : " are", " damaged"));
}

}  // namespace shoal
