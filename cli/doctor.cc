// shoal doctor: what this machine offers, and what could be better.
#include "local/doctor.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "cli/options.h"

namespace shoal::cli {
namespace {

struct Options {
  SchedulerOption scheduler;
  bool json = false;
};

int Run(const Options& options) {
  DoctorOptions doctor;
  doctor.scheduler = options.scheduler.address;
  doctor.connect_timeout = options.scheduler.connect_timeout;
  nlohmann::ordered_json checks = nlohmann::ordered_json::array();
  std::string text;
  bool reachable = true;
  for (const Finding& finding : Examine(doctor)) {
    checks.push_back(
        {{"subject", finding.subject}, {"ok", finding.ok}, {"found", finding.found}, {"advice", finding.advice}});
    absl::StrAppendFormat(&text, "%-4s  %-16s %s\n", finding.ok ? "ok" : "warn", finding.subject, finding.found);
    if (!finding.advice.empty()) absl::StrAppend(&text, "                        ", finding.advice, "\n");
    if (finding.subject == "scheduler") reachable = finding.ok;
  }
  Print(options.json, {{"checks", checks}}, text);
  return reachable ? kOk : kFailed;
}

}  // namespace

void AddDoctor(CLI::App* root, Action* action) {
  auto options = std::make_shared<Options>();
  CLI::App* const verb = AddVerb(root, "doctor",
                                 "Look at this machine and, if one is named, at a scheduler: a line each, ok or warn "
                                 "with advice; exits with 1 only when the scheduler doesn't answer",
                                 "shoal doctor --scheduler 127.0.0.1:7070");
  options->scheduler.AddTo(verb, false);
  AddJson(verb, &options->json);
  verb->callback([options, action] { *action = [options] { return Run(*options); }; });
}

}  // namespace shoal::cli
