// docs/job-file.md is what job_doc prints.
#include "proto/job/job_doc.h"

#include <catch2/catch.hpp>
#include <fstream>
#include <iterator>
#include <string>

#include "proto/job/job_file.h"

namespace shoal {
namespace {

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  INFO(path);
  REQUIRE(file.good());
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

TEST_CASE("job_doc: the committed docs/job-file.md is up to date", "[proto][unit]") {
  const absl::StatusOr<std::string> markdown = JobFileMarkdown(ReadFile("proto/job/job_descriptor_set.bin"));
  REQUIRE(markdown.ok());
  INFO("bazel run //proto/job:job_doc > docs/job-file.md brings it up to date");
  // Not compared by CHECK(a == b), which would print both documents.
  const bool up_to_date = ReadFile("docs/job-file.md") == *markdown;
  CHECK(up_to_date);
}

TEST_CASE("job_doc: the example in its introduction is a valid job", "[proto][unit]") {
  const std::string markdown = ReadFile("docs/job-file.md");
  const std::string fence = "```yaml\n";
  const size_t begin = markdown.find(fence) + fence.size();
  const size_t end = markdown.find("```", begin);
  REQUIRE(end != std::string::npos);
  const absl::StatusOr<Job> job = LoadJobFromText(markdown.substr(begin, end - begin), "example.yaml", "/jobs");
  INFO(job.status().message());
  CHECK(job.ok());
}

TEST_CASE("job_doc: bytes that are no descriptor set are refused", "[proto][unit]") {
  CHECK(JobFileMarkdown("\xff\xff\xff").status().message() == "not a FileDescriptorSet");
  CHECK(JobFileMarkdown("").status().message() == "the FileDescriptorSet does not hold proto/job.proto");
}

}  // namespace
}  // namespace shoal
