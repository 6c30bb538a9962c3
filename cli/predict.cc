// shoal predict: what the model of a checkpoint says about each record.
#include <cstdio>
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "cli/options.h"
#include "local/inference.h"
#include "local/preflight.h"
#include "local/report.h"

namespace shoal::cli {
namespace {

struct Options {
  InferenceOptions inference;
  std::string output;
  bool overwrite = false;
  bool json = false;
};

int Run(const Options& options) {
  const absl::Status free = CheckOutputFree(options.output, false, options.overwrite);
  if (!free.ok()) return Fail(free);
  const absl::StatusOr<InferenceResult> result = PredictCheckpoint(options.inference, options.output);
  if (!result.ok()) return Fail(result.status());
  if (options.output == "-") return kOk;  // stdout belongs to the predictions
  const nlohmann::ordered_json json = {{"job", result->job},
                                       {"checkpoint", result->checkpoint},
                                       {"output", options.output},
                                       {"examples", result->metrics.examples},
                                       {"bad_records", result->bad_records},
                                       {"seconds", result->seconds}};
  Print(options.json, json, absl::StrCat(options.output, ": ", result->metrics.examples, " predictions\n"));
  return kOk;
}

}  // namespace

void AddPredict(CLI::App* root, Action* action) {
  auto options = std::make_shared<Options>();
  CLI::App* const verb = AddVerb(root, "predict",
                                 "Write a line \"id<TAB>probability\" for each record, in order; models with several "
                                 "outputs: the five most probable as label:probability",
                                 "shoal predict --checkpoint ckpt --data today.tsv.gz --output predictions.tsv");
  verb->add_option("--checkpoint", options->inference.checkpoint,
                   "A checkpoint, or a directory of them, whose newest is taken")
      ->required()
      ->type_name("DIR");
  verb->add_option("--output", options->output, "File to write; - for stdout")->required()->type_name("FILE");
  verb->add_option("--data", options->inference.data, "Inputs instead of the job's data.eval; may be repeated")
      ->type_name("PATH");
  verb->add_option("--set", options->inference.overrides, "Changes a field of the checkpoint's job; may be repeated")
      ->type_name("FIELD=VALUE")
      ->allow_extra_args(false);
  verb->add_flag_callback(
      "--no-labels", [options] { options->inference.labels = Labels::kAbsent; },
      "The inputs have no labels: csv without their column, criteo rows that begin with I1, libsvm lines that begin "
      "with index:value, idx images without label files");
  AddOverwrite(verb, &options->overwrite);
  AddJson(verb, &options->json);
  verb->callback([options, action] { *action = [options] { return Run(*options); }; });
}

}  // namespace shoal::cli
