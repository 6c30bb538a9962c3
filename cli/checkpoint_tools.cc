// shoal checkpoint diff, merge, export.
#include <nlohmann/json.hpp>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/checkpoint.h"
#include "cli/options.h"
#include "local/checkpoint_diff.h"
#include "local/checkpoint_export.h"
#include "local/preflight.h"
#include "server/checkpoint/merge.h"

namespace shoal::cli {
namespace {

struct DiffOptions {
  std::string before, after;
  bool json = false;
};

struct MergeOptions {
  std::string path, output;
  bool json = false;
};

struct ExportVerbOptions {
  ExportOptions what;
  bool overwrite = false;
  std::string format;  // empty: as the output's name says
  bool json = false;
};

int Diff(const DiffOptions& options) {
  const absl::StatusOr<CheckpointDiff> diff = DiffCheckpoints(options.before, options.after);
  if (!diff.ok()) return Fail(diff.status());
  Print(options.json, DiffJson(*diff), DiffText(*diff));
  return kOk;
}

int Merge(const MergeOptions& options) {
  const absl::StatusOr<MergeReport> report = MergeCheckpoint(options.path, options.output);
  if (!report.ok()) return Fail(report.status());
  Print(options.json,
        {{"source", report->source},
         {"path", report->written},
         {"links", report->links},
         {"partitions", report->partitions},
         {"rows", report->rows},
         {"counted", report->counted},
         {"bytes", report->bytes}},
        absl::StrFormat("%s: %d checkpoints, %d rows, %d bytes\n", report->written, report->links, report->rows,
                        report->bytes));
  return kOk;
}

int Export(ExportVerbOptions options) {
  const bool npz = options.format.empty() ? absl::EndsWith(options.what.output, ".npz") : options.format == "npz";
  const absl::Status free = CheckOutputFree(options.what.output, !npz, options.overwrite);
  if (!free.ok()) return Fail(free);
  options.what.format = npz ? ExportFormat::kNpz : ExportFormat::kTsv;
  const absl::StatusOr<ExportReport> report = ExportCheckpoint(options.what);
  if (!report.ok()) return Fail(report.status());
  nlohmann::ordered_json tables = nlohmann::ordered_json::object();
  std::string text = absl::StrCat(options.what.output, ":\n");
  for (const ExportReport::Table& table : report->tables) {
    tables[table.name] = {{table.dense ? "floats" : "rows", table.rows}};
    absl::StrAppendFormat(&text, "  %-24s %d %s\n", table.name, table.rows, table.dense ? "floats" : "rows");
  }
  Print(options.json,
        {{"source", report->checkpoint},
         {"path", options.what.output},
         {"format", npz ? "npz" : "tsv"},
         {"tables", tables}},
        text);
  return kOk;
}

CLI::Option* AddPath(CLI::App* verb, std::string* path) {
  return verb->add_option("path", *path, "A checkpoint, or a directory of them")->required()->type_name("DIR");
}

}  // namespace

void AddCheckpointTools(CLI::App* parent, Action* action) {
  auto diff = std::make_shared<DiffOptions>();
  CLI::App* verb = AddVerb(parent, "diff", "Compare two checkpoints: rows by table, norms of tensors",
                           "shoal checkpoint diff ckpt/ckpt-00000001 ckpt/ckpt-00000002");
  verb->add_option("before", diff->before, "A checkpoint, or a directory of them")->required()->type_name("BEFORE");
  verb->add_option("after", diff->after, "Another one")->required()->type_name("AFTER");
  AddJson(verb, &diff->json);
  verb->callback([diff, action] { *action = [diff] { return Diff(*diff); }; });

  auto merge = std::make_shared<MergeOptions>();
  verb = AddVerb(parent, "merge", "Write a checkpoint and all that it builds on as one full checkpoint",
                 "shoal checkpoint merge ckpt --output merged/full");
  AddPath(verb, &merge->path);
  verb->add_option("--output", merge->output, "Directory to make")->required()->type_name("DIR");
  AddJson(verb, &merge->json);
  verb->callback([merge, action] { *action = [merge] { return Merge(*merge); }; });

  auto out = std::make_shared<ExportVerbOptions>();
  verb = AddVerb(parent, "export", "Write tables and tensors for NumPy (.npz) or as text (TSV)",
                 "shoal checkpoint export ckpt --output model.npz --tables embedding");
  AddPath(verb, &out->what.checkpoint);
  verb->add_option("--output", out->what.output, "File to write (npz) or directory of files to write (tsv)")
      ->required()
      ->type_name("PATH");
  verb->add_option("--format", out->format, "npz or tsv; default: npz when the output's name ends in .npz")
      ->check(CLI::IsMember({"npz", "tsv"}));
  verb->add_option("--tables", out->what.tables, "Only these tables and tensors")
      ->delimiter(',')
      ->type_name("NAME,...");
  verb->add_flag("--state", out->what.state, "Optimizer state, too");
  AddOverwrite(verb, &out->overwrite);
  AddJson(verb, &out->json);
  verb->callback([out, action] { *action = [out] { return Export(*out); }; });
}

}  // namespace shoal::cli
