// shoal checkpoint: looks at checkpoints on disk.
#include "cli/checkpoint.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cli/options.h"
#include "local/checkpoint_report.h"
#include "server/checkpoint/checkpoint.h"

namespace shoal::cli {
namespace {

struct Options {
  std::string path;
  uint64_t rows = 0;
  bool all = false;
  bool json = false;
};

int List(const Options& options) {
  auto checkpoints = ListCheckpoints(options.path);
  if (!checkpoints.ok()) return Fail(checkpoints.status());
  if (checkpoints->empty()) {  // it may be a checkpoint itself, else this says what every other verb does
    std::string dir;
    absl::StatusOr<Manifest> manifest = ReadManifest(options.path, &dir);
    if (!manifest.ok()) return Fail(manifest.status());
    checkpoints->emplace_back(dir, *std::move(manifest));
  }
  Print(options.json, CheckpointListJson(*checkpoints), CheckpointListText(*checkpoints));
  return kOk;
}

int VerifyAll(const Options& options) {
  const absl::StatusOr<std::vector<CheckedCheckpoint>> checked = VerifyEach(options.path);
  if (!checked.ok()) return Fail(checked.status());
  Print(options.json, CheckedJson(*checked), CheckedText(*checked));
  const absl::Status status = CheckedStatus(options.path, *checked);
  return status.ok() ? kOk : Fail(status);
}

int Verify(const Options& options) {
  if (options.all) return VerifyAll(options);
  const absl::Status newest = CheckNewest(options.path);
  if (!newest.ok()) return Fail(newest);
  std::string dir, others;
  const absl::StatusOr<Manifest> manifest = ReadManifest(options.path, &dir);
  if (!manifest.ok()) return Fail(manifest.status());
  const absl::Status status = VerifyCheckpoint(dir);
  if (!status.ok()) return Fail(status);
  const auto complete = ListCheckpoints(options.path);
  const auto damaged = ListDamaged(options.path);
  if (dir != options.path && complete.ok() && damaged.ok() && complete->size() + damaged->size() > 1) {
    others = absl::StrCat(" (the newest of ", complete->size() + damaged->size(), "; --all checks each)");
  }
  Print(options.json, {{"path", dir}, {"valid", true}}, absl::StrCat(dir, ": valid", others, "\n"));
  return kOk;
}

int Inspect(const Options& options) {
  std::string dir;
  const absl::StatusOr<Manifest> manifest = ReadManifest(options.path, &dir);
  if (!manifest.ok()) return Fail(manifest.status());
  absl::StatusOr<std::string> rows = "";
  if (options.rows > 0 && !options.json) rows = RowsText(dir, options.rows);
  if (!rows.ok()) return Fail(rows.status());
  Print(options.json, ManifestJson(dir, *manifest), absl::StrCat(ManifestText(dir, *manifest), *rows));
  return kOk;
}

CLI::App* AddSubVerb(CLI::App* parent, const std::string& name, const std::string& description,
                     const std::string& example, const std::shared_ptr<Options>& options, Action* action,
                     int (*run)(const Options&)) {
  CLI::App* const verb = AddVerb(parent, name, description, example);
  verb->add_option("path", options->path, "A checkpoint, or a directory of them")->required()->type_name("DIR");
  AddJson(verb, &options->json);
  verb->callback([options, action, run] { *action = [options, run] { return run(*options); }; });
  return verb;
}

}  // namespace

void AddCheckpoint(CLI::App* root, Action* action) {
  auto options = std::make_shared<Options>();
  CLI::App* const verb = AddVerb(root, "checkpoint", "Look at checkpoints, compare, merge and export them",
                                 "shoal checkpoint verify ckpt");
  verb->require_subcommand(1);
  AddSubVerb(verb, "ls", "List the complete checkpoints of a directory, oldest first, or just one",
             "shoal checkpoint ls ckpt", options, action, List);
  CLI::App* const verify = AddSubVerb(verb, "verify", "Read every part and check sizes, checksums, rows and digests",
                                      "shoal checkpoint verify ckpt --all", options, action, Verify);
  verify->add_flag("--all", options->all, "Of a directory of checkpoints each one, not only the newest");
  CLI::App* const inspect = AddSubVerb(verb, "inspect", "Show job, tables and parts of a checkpoint",
                                       "shoal checkpoint inspect ckpt --rows 5", options, action, Inspect);
  inspect->add_option("--rows", options->rows, "Also show this many rows of each table")
      ->type_name("N")
      ->check(Whole(0, UINT32_MAX));
  AddCheckpointTools(verb, action);
}

}  // namespace shoal::cli
