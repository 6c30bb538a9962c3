// shoal bench: how fast this machine is at the parts of training, each beside what it could be compared with.
#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "cli/options.h"
#include "local/bench/benchmarks.h"

namespace shoal::cli {
namespace {

struct Options {
  std::vector<std::string> what;
  BenchSize size = BenchSize::kQuick;
  bool json = false;
};

// One row a line, as they come, since some take minutes.
int Run(const Options& options) {
  for (const Benchmark& benchmark : Benchmarks()) {
    const bool named = std::find(options.what.begin(), options.what.end(), benchmark.name) != options.what.end();
    if (!named && !(options.what.empty() && benchmark.by_default)) continue;
    absl::StatusOr<BenchRows> rows = benchmark.run(options.size);
    if (!rows.ok()) return Fail(rows.status());
    for (BenchRow& row : *rows) {
      if (options.size == BenchSize::kSmoke) row.target = 0;  // no size to judge by
      std::printf("%s\n", (options.json ? ToJsonLine(row) : ToTextLine(row)).c_str());
      std::fflush(stdout);
    }
  }
  return kOk;
}

}  // namespace

void AddBench(CLI::App* root, Action* action) {
  auto options = std::make_shared<Options>();
  std::vector<std::string> names;
  std::string help = "What to measure, default all that end in a minute:";
  for (const Benchmark& benchmark : Benchmarks()) {
    names.push_back(benchmark.name);
    absl::StrAppend(&help, " ", benchmark.name, " (", benchmark.about, ")");
  }
  CLI::App* const verb =
      AddVerb(root, "bench",
              "Measure this machine: each part of training beside a bare loop or a raw call that "
              "moves the same bytes; prints a row each. docs/performance.md says what T1, T2 ... are",
              "shoal bench store wire");
  verb->add_option("what", options->what, help)->check(CLI::IsMember(names));
  const std::map<std::string, BenchSize> sizes = {
      {"smoke", BenchSize::kSmoke}, {"quick", BenchSize::kQuick}, {"full", BenchSize::kFull}};
  const auto set_size = [options, sizes](const std::string& name) {
    const auto size = sizes.find(name);
    if (size == sizes.end()) throw CLI::ValidationError("--size", name + ": expected smoke, quick or full");
    options->size = size->second;
  };
  verb->add_option_function<std::string>(
          "--size", set_size,
          "smoke: only that it works, the figures mean nothing; quick; full: all table sizes, more repeats")
      ->type_name("SIZE")
      ->default_str("quick");
  verb->add_flag("--json", options->json, "One JSON object a row, with all samples");
  verb->callback([options, action] { *action = [options] { return Run(*options); }; });
}

}  // namespace shoal::cli
