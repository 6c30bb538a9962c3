// shoal evaluate: measures the model of a checkpoint.
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "cli/options.h"
#include "local/inference.h"
#include "local/report.h"

namespace shoal::cli {
namespace {

struct Options {
  InferenceOptions inference;
  bool json = false;
};

int Run(const Options& options) {
  const absl::StatusOr<InferenceResult> result = EvaluateCheckpoint(options.inference);
  if (!result.ok()) return Fail(result.status());
  const nlohmann::ordered_json json = {{"job", result->job},
                                       {"state", "SUCCEEDED"},
                                       {"checkpoint", result->checkpoint},
                                       {"eval", MetricsJson(result->metrics)},
                                       {"bad_records", result->bad_records},
                                       {"seconds", result->seconds}};
  Print(options.json, json, absl::StrCat(result->checkpoint, ": ", MetricsText(result->metrics), "\n"));
  return kOk;
}

}  // namespace

void AddEvaluate(CLI::App* root, Action* action) {
  auto options = std::make_shared<Options>();
  CLI::App* const verb = AddVerb(root, "evaluate", "Measure the model of a checkpoint on the job's evaluation inputs",
                                 "shoal evaluate --checkpoint ckpt --data more.tsv.gz");
  verb->add_option("--checkpoint", options->inference.checkpoint,
                   "A checkpoint, or a directory of them, whose newest is taken")
      ->required()
      ->type_name("DIR");
  verb->add_option("--data", options->inference.data, "Inputs instead of the job's data.eval; may be repeated")
      ->type_name("PATH");
  verb->add_option("--set", options->inference.overrides, "Changes a field of the checkpoint's job; may be repeated")
      ->type_name("FIELD=VALUE")
      ->allow_extra_args(false);
  AddJson(verb, &options->json);
  verb->callback([options, action] { *action = [options] { return Run(*options); }; });
}

}  // namespace shoal::cli
