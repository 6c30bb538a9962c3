// shoal: trains models whose parameters live on sharded parameter servers. One binary, one verb per task:
//   shoal train examples/census/job.yaml
//   shoal --help
#include <CLI/CLI.hpp>
#include <cstdio>
#include <iostream>
#include <string>
#include <vector>

#include "base/text_distance.h"
#include "base/version.h"
#include "cli/logging.h"
#include "cli/options.h"
#include "cli/verbs.h"

namespace {

void AddVerbs(CLI::App* app, shoal::cli::Action* action) {
  for (const auto add :
       {shoal::cli::AddTrain,      shoal::cli::AddValidate,     shoal::cli::AddEvaluate, shoal::cli::AddPredict,
        shoal::cli::AddCheckpoint, shoal::cli::AddVerifyParity, shoal::cli::AddDatagen,  shoal::cli::AddLocal,
        shoal::cli::AddScheduler,  shoal::cli::AddServer,       shoal::cli::AddWorker,   shoal::cli::AddSubmit,
        shoal::cli::AddList,       shoal::cli::AddStatus,       shoal::cli::AddWatch,    shoal::cli::AddLogs,
        shoal::cli::AddCancel,     shoal::cli::AddDrain,        shoal::cli::AddBench,    shoal::cli::AddDoctor,
        shoal::cli::AddRecords,    shoal::cli::AddVersion}) {
    add(app, action);
  }
}

// The verbs below `at`, and which of them may be meant by `word`.
std::string KnownVerbs(const CLI::App& at, const std::string& word) {
  std::vector<std::string> names;
  for (const CLI::App* verb : at.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(verb->get_name());
  }
  const std::string nearest = shoal::NearestName(word, names);
  std::string text = nearest.empty() ? "" : "did you mean " + nearest + "? ";
  text += "The verbs are";
  for (const std::string& name : names) text += (name == names.front() ? " " : ", ") + name;
  return text;
}

// Names the verb that there is not, where CLI11 would say that one is missing, and the other way to name a scheduler.
CLI::ParseError Describe(const CLI::ParseError& error, const CLI::App& app) {
  const CLI::App* at = &app;
  while (!at->get_subcommands().empty()) at = at->get_subcommands().front();
  const bool lacks_verb = at->get_require_subcommand_min() > 0;
  if (std::string(error.what()) == "--scheduler is required") {
    return CLI::ParseError("--scheduler HOST:PORT or the environment variable SHOAL_SCHEDULER is required",
                           CLI::ExitCodes::RequiredError);
  }
  if (!lacks_verb || dynamic_cast<const CLI::RequiredError*>(&error) == nullptr) return error;
  for (const std::string& word : app.remaining(true)) {
    if (word.empty() || word[0] == '-') continue;
    return CLI::ParseError("unknown verb \"" + word + "\"; " + KnownVerbs(*at, word), CLI::ExitCodes::ExtrasError);
  }
  return CLI::ParseError(at->get_name() + ": a verb is missing. " + KnownVerbs(*at, ""), CLI::ExitCodes::RequiredError);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("shoal trains models whose parameters live on sharded parameter servers.", "shoal");
  app.set_version_flag("--version", std::string("shoal ") + shoal::kVersion);
  app.require_subcommand(1);
  app.fallthrough();  // global options may stand after the verb
  shoal::cli::LogOptions log;
  app.add_option("--log-level", log.level, "Least important lines to log on stderr")
      ->check(CLI::IsMember({"trace", "debug", "info", "warning", "error", "off"}))
      ->capture_default_str();
  app.add_flag("--log-json", log.json, "Log lines as JSON objects");
  app.footer("Example:\n  shoal train examples/census/job.yaml\n\n`shoal VERB --help` tells more about each.");
  shoal::cli::Action action;
  AddVerbs(&app, &action);
  try {
    app.parse(shoal::cli::Arguments(argc, argv));
    shoal::cli::RefuseEmptyValues(app);
  } catch (const CLI::ParseError& error) {
    // CLI11 has a status of its own for each kind of error; all of them are bad usage.
    return app.exit(Describe(error, app)) == 0 ? shoal::cli::kOk : shoal::cli::kUsage;
  }
  shoal::cli::StartLogging(log);
  const int status = action();
  // A full disk or a closed pipe shows here at the latest: what was not written is no success.
  std::cout.flush();
  if (std::cout.good() && std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return status;
  std::fputs("shoal: the results could not be written to standard output\n", stderr);
  return status == shoal::cli::kOk ? shoal::cli::kFailed : status;
}
