#include "cli/options.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/parse_units.h"
#include "local/connection.h"
#include "proto/job/job_file.h"

namespace shoal::cli {
namespace {

constexpr char kRuns[] = "--runs";

}  // namespace

CLI::App* AddVerb(CLI::App* root, const std::string& name, const std::string& description, const std::string& example) {
  CLI::App* const verb = root->add_subcommand(name, description);
  verb->footer(absl::StrCat("Example:\n  ", example));
  return verb;
}

CLI::Option* AddDuration(CLI::App* verb, const std::string& name, absl::Duration* target, const std::string& help) {
  const auto parse = [target, name](const std::string& text) {
    const absl::StatusOr<uint64_t> ms = ParseDurationMs(text);
    if (!ms.ok()) throw CLI::ValidationError(name, std::string(ms.status().message()));
    *target = absl::Milliseconds(*ms);
  };
  return verb->add_option_function<std::string>(name, parse, help)
      ->type_name("DURATION")
      ->default_str(FormatDurationMs(absl::ToInt64Milliseconds(*target)));
}

CLI::Validator Whole(uint64_t min, uint64_t max) {
  const auto check = [min, max](const std::string& text) -> std::string {
    uint64_t value = 0;
    const bool digits = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
    if (digits && absl::SimpleAtoi(text, &value) && value >= min && value <= max) return "";
    return absl::StrCat(text, ": expected a whole number from ", min, " to ", max);
  };
  return CLI::Validator(check, "");
}

void JobOptions::AddTo(CLI::App* verb) {
  verb->add_option("job", path, "The job file")->required()->type_name("JOB");
  AddOverridesTo(verb);
}

void JobOptions::AddOverridesTo(CLI::App* verb) {
  verb->add_option("--set", overrides, "Changes a field of the job (a.b=c, lists too: a=[1,2]); may be repeated")
      ->type_name("FIELD=VALUE")
      ->allow_extra_args(false);
}

absl::StatusOr<Job> JobOptions::Load() const { return LoadJob(path, overrides); }

void SchedulerOption::AddTo(CLI::App* verb, bool required) {
  verb->add_option("--scheduler", address, "Address of the scheduler")
      ->type_name("HOST:PORT")
      ->envname("SHOAL_SCHEDULER")
      ->required(required);
  AddDuration(verb, "--connect-timeout", &connect_timeout, "How long to try to reach the scheduler");
}

absl::StatusOr<std::unique_ptr<SchedulerClient>> SchedulerOption::Connect() const {
  return ConnectScheduler(address, connect_timeout);
}

void AddSpot(CLI::App* verb, SpotOptions* options) {
  const auto parse = [options](const std::string& name) {
    const absl::StatusOr<SpotProvider> provider = ParseSpotProvider(name);
    if (!provider.ok()) throw CLI::ValidationError("--spot-notices", std::string(provider.status().message()));
    options->provider = *provider;
  };
  verb->add_option_function<std::string>("--spot-notices", parse,
                                         "Cloud whose metadata service tells when this machine is taken away: aws, "
                                         "gcp, azure or off; the process drains in the time that is left")
      ->type_name("CLOUD")
      ->default_str("off");
  verb->add_option("--spot-url", options->url, "Where that service is; default: where the cloud has it")
      ->type_name("http://HOST[:PORT]");
}

void AddListen(CLI::App* verb, ListenOptions* options) {
  verb->add_option("--listen", options->address, "Address to listen on; port 0 takes a free one")
      ->type_name("HOST:PORT")
      ->capture_default_str();
  verb->add_flag("--insecure", options->insecure,
                 "Allow an address that other machines can reach (nothing is encrypted or authenticated)");
}

void AddResume(CLI::App* verb, std::string* from) {
  verb->add_option("--resume", *from,
                   "Go on from a checkpoint of this job: its directory, or `latest` (when left out) for the newest in "
                   "checkpoint.dir")
      ->type_name("[CKPT]")
      ->expected(0, 1)
      ->default_str("latest")
      ->transform(CLI::Validator(
          [](std::string& value) {
            if (value != "latest") value = std::filesystem::absolute(value).lexically_normal().string();
            return std::string();
          },
          ""));
}

void AddJson(CLI::App* verb, bool* json) { verb->add_flag("--json", *json, "Print one JSON object"); }

void AddOverwrite(CLI::App* verb, bool* overwrite) {
  verb->add_flag("--overwrite", *overwrite, "Let what is written take the place of what --output holds");
}

void AddRuns(CLI::App* verb, std::string* runs) {
  verb->add_option(kRuns, *runs, "Where <name>-<id>/ with the resolved job and its metrics is made; '' for nowhere")
      ->type_name("DIR")
      ->capture_default_str();
}

std::vector<std::string> Arguments(int argc, char** argv) {
  std::vector<std::string> arguments;
  bool options = true;
  for (int i = 1; i < argc; ++i) {
    std::string argument = argv[i];
    options = options && argument != "--";
    const bool empty_value =
        options && argument.size() > 3 && argument.substr(0, 2) == "--" && argument.find('=') == argument.size() - 1;
    if (empty_value) argument.pop_back();
    arguments.push_back(std::move(argument));
    if (empty_value) arguments.emplace_back();
  }
  std::reverse(arguments.begin(), arguments.end());
  return arguments;
}

void RefuseEmptyValues(const CLI::App& app) {
  for (const CLI::Option* option : app.get_options()) {
    const std::vector<std::string>& values = option->results();
    if (option->get_name() == kRuns || std::find(values.begin(), values.end(), "") == values.end()) continue;
    throw CLI::ValidationError(option->get_name(), "the value must not be empty");
  }
  for (const CLI::App* verb : app.get_subcommands()) RefuseEmptyValues(*verb);
}

int Fail(const absl::Status& status) {
  std::fprintf(stderr, "shoal: %s\n", std::string(status.message()).c_str());
  return kFailed;
}

int UsageError(const absl::Status& status) {
  Fail(status);
  return kUsage;
}

void Print(bool as_json, const nlohmann::ordered_json& json, const std::string& text) {
  const std::string out = as_json ? json.dump() + "\n" : text;
  std::fwrite(out.data(), 1, out.size(), stdout);
  std::fflush(stdout);
}

}  // namespace shoal::cli
