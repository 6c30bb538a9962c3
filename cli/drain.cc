// shoal drain: a worker hands back its splits, a server hands over its partitions, then the process exits.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "cli/options.h"

namespace shoal::cli {
namespace {

struct Options {
  SchedulerOption scheduler;
  std::string name;
  absl::Duration grace = absl::ZeroDuration();
  bool wait = false;
  bool json = false;
};

// State of the newest process of that name; empty when there is none.
absl::StatusOr<std::string> StateOf(SchedulerClient* scheduler, const std::string& name) {
  const absl::StatusOr<ClusterStatus> status = scheduler->Status(Empty(), kCallTimeout);
  if (!status.ok()) return status.status();
  uint64_t newest = 0;
  std::string state;
  for (const ProcessStatus& process : status->processes()) {
    if (process.name() != name || process.process() < newest) continue;
    newest = process.process();
    state = process.state();
  }
  return state;
}

absl::Status AwaitGone(SchedulerClient* scheduler, const std::string& name, std::string* state) {
  constexpr absl::Duration kPatience = absl::Seconds(30);  // with a scheduler that is away
  absl::Duration unanswered_since = absl::InfiniteDuration();
  for (;;) {
    const absl::StatusOr<std::string> now = StateOf(scheduler, name);
    if (now.ok()) {
      unanswered_since = absl::InfiniteDuration();
      *state = *now;
      if (*state != "ALIVE" && *state != "SUSPECT" && *state != "DRAINING") return absl::OkStatus();
    } else {
      unanswered_since = std::min(unanswered_since, Clock::Steady().Now());
      if (Clock::Steady().Now() - unanswered_since > kPatience) return now.status();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
  }
}

int Run(const Options& options) {
  const auto scheduler = options.scheduler.Connect();
  if (!scheduler.ok()) return Fail(scheduler.status());
  // The scheduler takes a drain of who has just left for a repeat.
  const absl::StatusOr<std::string> before = StateOf(scheduler->get(), options.name);
  if (before.ok() && *before == "LEFT") {
    if (options.wait) {  // what is waited for is so already
      Print(options.json, {{"name", options.name}, {"state", *before}},
            absl::StrCat(options.name, ": LEFT already: there is nothing to drain\n"));
      return kOk;
    }
    return Fail(absl::FailedPreconditionError(absl::StrCat(options.name, " is LEFT: there is nothing to drain")));
  }
  DrainRequest request;
  request.set_name(options.name);
  request.set_grace_ms(static_cast<uint32_t>(std::min(
      absl::ToInt64Milliseconds(options.grace), static_cast<int64_t>(absl::ToInt64Milliseconds(absl::Hours(24))))));
  request.set_reason("shoal drain");
  const absl::StatusOr<Empty> asked = (*scheduler)->Drain(request, kCallTimeout);
  if (!asked.ok()) return Fail(asked.status());
  std::string state = "draining";
  if (options.wait) {
    const absl::Status gone = AwaitGone(scheduler->get(), options.name, &state);
    if (!gone.ok()) return Fail(gone);
  }
  Print(options.json, {{"name", options.name}, {"state", state}}, absl::StrCat(options.name, ": ", state, "\n"));
  return options.wait && state != "LEFT" ? kFailed : kOk;
}

}  // namespace

void AddDrain(CLI::App* root, Action* action) {
  auto options = std::make_shared<Options>();
  CLI::App* const verb = AddVerb(root, "drain",
                                 "Let a worker hand back its work or a server hand over its partitions, and then exit; "
                                 "jobs go on without it",
                                 "shoal drain server-1 --wait --scheduler 127.0.0.1:7070");
  options->scheduler.AddTo(verb);
  verb->add_option("name", options->name, "Name of the worker or server, as `shoal status` shows it")
      ->required()
      ->type_name("NAME");
  AddDuration(verb, "--grace-period", &options->grace, "The machine goes away after this long; 0s: no hurry");
  verb->add_flag("--wait", options->wait,
                 "Wait until it has left; status 0 when it had before, 1 when it died instead");
  AddJson(verb, &options->json);
  verb->callback([options, action] { *action = [options] { return Run(*options); }; });
}

}  // namespace shoal::cli
