// shoal version: what this binary is.
#include "base/version.h"

#include <nlohmann/json.hpp>

#include "absl/strings/str_cat.h"
#include "cli/options.h"
#include "proto/protocol_version.h"

namespace shoal::cli {
namespace {

int Run(bool json) {
  Print(json, {{"version", kVersion}, {"protocol", kProtocolVersion}},
        absl::StrCat("shoal ", kVersion, " (protocol ", kProtocolVersion, ")\n"));
  return kOk;
}

}  // namespace

void AddVersion(CLI::App* root, Action* action) {
  auto json = std::make_shared<bool>(false);
  CLI::App* const verb = AddVerb(root, "version", "Print the version", "shoal version --json");
  AddJson(verb, json.get());
  verb->callback([json, action] { *action = [json] { return Run(*json); }; });
}

}  // namespace shoal::cli
