#include "local/run_folder.h"

#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

namespace shoal {
namespace {

TEST_CASE("RunFolder: a folder that is there is left as it is", "[unit]") {
  std::string runs = std::filesystem::temp_directory_path() / "shoal-runs-XXXXXX";
  REQUIRE(mkdtemp(runs.data()) != nullptr);
  Job job;
  job.set_name("census");
  JobStatus status;
  status.set_state(SUCCEEDED);
  const auto lines = [](const std::string& folder) {
    std::ifstream in(folder + "/metrics.jsonl");
    int count = 0;
    for (std::string line; std::getline(in, line);) ++count;
    return count;
  };
  for (const char* name : {"census-7", "census-7-2", "census-7-3"}) {
    // Two clusters both have a job 7.
    auto folder = RunFolder::Create(runs, "7", job);
    REQUIRE(folder.status() == absl::OkStatus());
    CHECK((*folder)->path() == runs + "/" + name);
    (*folder)->Add(status);
  }
  for (const char* name : {"census-7", "census-7-2", "census-7-3"}) CHECK(lines(runs + "/" + name) == 1);
  std::filesystem::remove_all(runs);

  auto refused = RunFolder::Create("/proc/nothing", "7", job);
  CHECK(refused.status().code() == absl::StatusCode::kUnavailable);
  CHECK(std::string(refused.status().message()).find("--runs DIR chooses another place") != std::string::npos);
}

}  // namespace
}  // namespace shoal
