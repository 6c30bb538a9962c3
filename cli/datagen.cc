// shoal datagen: Criteo-like rows labelled by a planted teacher.
#include "worker/data/datagen.h"

#include <cmath>
#include <cstdio>
#include <iostream>
#include <limits>
#include <nlohmann/json.hpp>

#include "absl/strings/str_format.h"
#include "cli/options.h"
#include "local/preflight.h"

namespace shoal::cli {
namespace {

constexpr uint64_t kMaxNumber = std::numeric_limits<uint64_t>::max();
// The teacher's own limit.
constexpr uint64_t kMaxIds = uint64_t{1} << 50;

struct Options {
  DatagenOptions data;
  std::string format = "criteo";
  uint64_t seed = 1;
  uint64_t ids_per_category = 1000;
  bool interactions = false;
  std::string output = "-";
  bool overwrite = false;
  bool json = false;
};

int Run(const Options& options) {
  DatagenOptions data = options.data;
  if (data.rows > kMaxNumber - data.first_row) {
    return UsageError(absl::InvalidArgumentError("--first-row + --rows: expected less than 2^64"));
  }
  const absl::Status free = CheckOutputFree(options.output, false, options.overwrite);
  if (!free.ok()) return Fail(free);
  data.format = options.format == "libsvm" ? DatagenFormat::kLibsvm : DatagenFormat::kCriteo;
  data.teacher.set_seed(options.seed);
  data.teacher.set_interactions(options.interactions);
  data.teacher.set_ids_per_category(options.ids_per_category);
  const bool to_stdout = options.output == "-";
  const absl::StatusOr<TeacherScore> score =
      to_stdout ? GenerateText(data, &std::cout) : GenerateFile(data, options.output);
  if (!score.ok()) return Fail(score.status());
  const auto number = [](double value) {
    return std::isfinite(value) ? nlohmann::ordered_json(value) : nlohmann::ordered_json(nullptr);
  };
  const nlohmann::ordered_json json = {{"rows", score->rows},
                                       {"positives", score->positives},
                                       {"teacher", {{"auc", number(score->auc)}, {"logloss", number(score->logloss)}}}};
  const std::string text =
      absl::StrFormat("%d rows, %d positive; the teacher itself: AUC %.5f, log loss %.5f (no model can do better)\n",
                      score->rows, score->positives, score->auc, score->logloss);
  if (to_stdout) {
    std::cout.flush();
    std::fputs((options.json ? json.dump() + "\n" : text).c_str(), stderr);
  } else {
    Print(options.json, json, text);
  }
  return kOk;
}

}  // namespace

void AddDatagen(CLI::App* root, Action* action) {
  auto options = std::make_shared<Options>();
  CLI::App* const verb = AddVerb(root, "datagen",
                                 "Write Criteo-like rows labelled by a planted teacher; says how well the teacher "
                                 "itself predicts them (on stderr when the rows go to stdout)",
                                 "shoal datagen --format criteo --rows 100000 --seed 1 --output train.tsv");
  verb->add_option("--format", options->format, "criteo or libsvm")
      ->check(CLI::IsMember({"criteo", "libsvm"}).description(""))
      ->type_name("FORMAT")
      ->capture_default_str();
  verb->add_option("--rows", options->data.rows, "Rows to write")
      ->required()
      ->type_name("N")
      ->check(Whole(1, kMaxNumber));
  verb->add_option("--first-row", options->data.first_row, "Skip the rows before this one (rows for evaluation)")
      ->type_name("N")
      ->check(Whole(0, kMaxNumber))
      ->capture_default_str();
  verb->add_option("--seed", options->seed, "Seed of teacher and rows")
      ->type_name("S")
      ->check(Whole(0, kMaxNumber))
      ->capture_default_str();
  verb->add_flag("--interactions", options->interactions, "Teacher with pairwise interactions");
  verb->add_option("--ids-per-category", options->ids_per_category, "Distinct ids in each categorical column")
      ->type_name("N")
      ->check(Whole(2, kMaxIds))
      ->capture_default_str();
  verb->add_option("--output", options->output, "File to write; - for stdout")
      ->type_name("FILE")
      ->capture_default_str();
  AddOverwrite(verb, &options->overwrite);
  AddJson(verb, &options->json);
  verb->callback([options, action] { *action = [options] { return Run(*options); }; });
}

}  // namespace shoal::cli
