// Every job file under examples/ loads and survives the way through job.resolved.yaml.
#include <google/protobuf/util/message_differencer.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <map>
#include <string>

#include "proto/job/job_file.h"

namespace shoal {
namespace {

std::map<std::string, std::string> ExamplePaths() {
  std::map<std::string, std::string> paths;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(
           "examples", std::filesystem::directory_options::follow_directory_symlink)) {
    if (entry.path().extension() == ".yaml") paths[entry.path().lexically_relative("examples")] = entry.path();
  }
  return paths;
}

TEST_CASE("examples: every job file is valid", "[proto][unit]") {
  const std::map<std::string, std::string> paths = ExamplePaths();
  for (const char* name :
       {"census/job.yaml", "census/deep.yaml", "a9a/job.yaml", "criteo/lr.yaml", "criteo/fm.yaml", "criteo/deepfm.yaml",
        "criteo/dcn.yaml", "criteo/dlrm.yaml", "synthetic/fm.yaml", "synthetic/lr.yaml", "fashion_mnist/job.yaml",
        "bibtex/linear.yaml", "bibtex/hidden.yaml", "agaricus/job.yaml", "counting/job.yaml"}) {
    INFO(name);
    CHECK(paths.count(name) == 1);
  }
  for (const auto& [name, path] : paths) {
    INFO(name);
    const absl::StatusOr<Job> job = LoadJob(path);
    INFO(job.status().message());
    REQUIRE(job.ok());
    const absl::StatusOr<Job> again = LoadJobFromText(ResolvedYaml(*job), "resolved.yaml", "/");
    INFO(again.status().message());
    REQUIRE(again.ok());
    CHECK(google::protobuf::util::MessageDifferencer::Equals(*job, *again));
  }
}

TEST_CASE("examples: data is named relative to the job file and may be given on the command line", "[proto][unit]") {
  const std::string directory = std::filesystem::absolute("examples").string();
  const absl::StatusOr<Job> census = LoadJob("examples/census/job.yaml");
  REQUIRE(census.ok());
  CHECK(census->data().train(0).path() == directory + "/census/adult.data.gz");
  const absl::StatusOr<Job> criteo =
      LoadJob("examples/criteo/lr.yaml", {"data.train.0.path=/data/t.gz", "data.eval.0.path=/data/t.gz"});
  REQUIRE(criteo.ok());
  CHECK(criteo->data().train(0).path() == "/data/t.gz");
  CHECK(criteo->data().train(0).rows(1) == 7000);
  CHECK(criteo->data().eval(0).rows(0) == 8000);
  CHECK(criteo->admission().min_count() == 5);
}

}  // namespace
}  // namespace shoal
