// Options that several verbs share, and how a verb ends.
#ifndef SHOAL_CLI_OPTIONS_H_
#define SHOAL_CLI_OPTIONS_H_

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "cli/verbs.h"
#include "local/daemons.h"
#include "proto/job.pb.h"
#include "proto/scheduler_client.h"

namespace shoal::cli {

inline constexpr int kOk = 0;
inline constexpr int kFailed = 1;
inline constexpr int kUsage = 2;

// A verb with its one-line description and the example that ends its help.
CLI::App* AddVerb(CLI::App* root, const std::string& name, const std::string& description, const std::string& example);

// A duration with unit ("10s", "500ms"); its default is the value that *target has.
CLI::Option* AddDuration(CLI::App* verb, const std::string& name, absl::Duration* target, const std::string& help);

// Checks for a whole number in decimal digits. CLI11 alone takes "-1" for 2^64 - 1 and cuts what is too large.
CLI::Validator Whole(uint64_t min, uint64_t max);

// JOB and --set.
struct JobOptions {
  std::string path;
  std::vector<std::string> overrides;
  void AddTo(CLI::App* verb);
  void AddOverridesTo(CLI::App* verb);
  absl::StatusOr<Job> Load() const;
};

// --scheduler and --connect-timeout.
struct SchedulerOption {
  std::string address;
  absl::Duration connect_timeout = absl::Seconds(10);
  void AddTo(CLI::App* verb, bool required = true);
  absl::StatusOr<std::unique_ptr<SchedulerClient>> Connect() const;
};

// --spot-notices, --spot-url. The names are checked by the parser.
void AddSpot(CLI::App* verb, SpotOptions* options);

// --listen, --insecure.
void AddListen(CLI::App* verb, ListenOptions* options);

// --resume [DIR]: *from becomes what SubmitRequest.restore_from takes; an absolute path, or "latest" without DIR.
void AddResume(CLI::App* verb, std::string* from);

// --json.
void AddJson(CLI::App* verb, bool* json);
// --overwrite of a verb whose --output is a file.
void AddOverwrite(CLI::App* verb, bool* overwrite);
// --runs; its default is "runs", an empty value means none.
void AddRuns(CLI::App* verb, std::string* runs);

// The arguments for CLI::App::parse, last one first. "--name=" becomes "--name" and an empty value: CLI11 would take
// the next argument, or the default.
std::vector<std::string> Arguments(int argc, char** argv);
// Throws CLI::ValidationError for an option or argument that was given an empty value, as a script's unset variable
// gives it: CLI11 checks no empty value, and none but that of --runs means anything.
void RefuseEmptyValues(const CLI::App& app);

// Prints "shoal: <message>" on stderr.
int Fail(const absl::Status& status);
int UsageError(const absl::Status& status);
// Prints the object on one line, or the text.
void Print(bool as_json, const nlohmann::ordered_json& json, const std::string& text);

// Deadline of a single question to a scheduler that has answered before.
inline constexpr absl::Duration kCallTimeout = absl::Seconds(10);

}  // namespace shoal::cli

#endif  // SHOAL_CLI_OPTIONS_H_
