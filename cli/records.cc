// shoal records: the records of a batch, as the reader decodes them.
#include "local/records.h"

#include <cstdio>
#include <nlohmann/json.hpp>

#include "cli/options.h"

namespace shoal::cli {
namespace {

struct Options {
  JobOptions job;
  RecordRange range;
};

int Run(const Options& options) {
  const absl::StatusOr<Job> job = options.job.Load();
  if (!job.ok()) return UsageError(job.status());
  const absl::Status status = VisitRecords(*job, options.range, [](const nlohmann::ordered_json& record) {
    std::printf("%s\n", record.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace).c_str());
  });
  return status.ok() ? kOk : Fail(status);
}

}  // namespace

void AddRecords(CLI::App* root, Action* action) {
  auto options = std::make_shared<Options>();
  CLI::App* const verb =
      AddVerb(root, "records",
              "Print training records as the reader decodes them, one JSON object a line, numbered as in training: "
              "those of a batch that the guard refused, for example",
              "shoal records job.yaml --pass 0 --split 3 --begin 512 --end 1024");
  options->job.AddTo(verb);
  const CLI::Validator whole = Whole(0, ~uint64_t{0});
  verb->add_option("--pass", options->range.pass, "From 0")->check(whole)->capture_default_str();
  verb->add_option("--split", options->range.split, "Position in the pass's order, from 0")
      ->check(whole)
      ->capture_default_str();
  verb->add_option("--begin", options->range.begin, "First record")->check(whole)->capture_default_str();
  verb->add_option("--end", options->range.end, "Record after the last; default: to the end of the split")
      ->check(whole);
  verb->callback([options, action] { *action = [options] { return Run(*options); }; });
}

}  // namespace shoal::cli
