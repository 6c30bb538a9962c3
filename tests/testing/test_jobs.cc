#include "tests/testing/test_jobs.h"

#include <cstdlib>
#include <filesystem>
#include <stdexcept>

#include "absl/strings/str_cat.h"
#include "proto/job/job_file.h"

namespace shoal {

TempDir::TempDir() {
  const char* base = std::getenv("TEST_TMPDIR");
  if (base == nullptr) base = std::getenv("TMPDIR");
  std::string pattern = absl::StrCat(base == nullptr ? "/tmp" : base, "/shoal-test-XXXXXX");
  if (mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("cannot make a folder like " + pattern);
  path_ = pattern;
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

Job TestJob(const std::string& yaml, const std::string& dir, const std::vector<std::string>& overrides) {
  absl::StatusOr<Job> job = LoadJobFromText(yaml, "test.yaml", dir, overrides);
  if (!job.ok()) throw std::runtime_error(std::string(job.status().message()));
  return *job;
}

Job CountingJob(const std::string& dir, uint64_t rows, uint32_t passes, const std::string& sync) {
  return TestJob(absl::StrCat("name: counting\n"
                              "data: {format: {synthetic: {rows: ",
                              rows, ", categories: 4, integers: 2, ids_per_category: 50}}, passes: ", passes,
                              ", shuffle: 500}\n"
                              "model: {preset: counting, embedding_dim: 4}\n"
                              "optimizer: {sparse: {sgd: -1}, dense: {sgd: -1}}\n"
                              "batch: {size: 100, reduce: sum}\n"
                              "guard: {off: true}\n"
                              "partitions: 32\n"
                              "checkpoint: {dir: ckpt}\n"
                              "sync: ",
                              sync, "\n"),
                 dir);
}

std::string Describe(const JobStatus& status) {
  const WorkerJobReport& counters = status.counters();
  return absl::StrCat(JobState_Name(status.state()), " (", status.reason(), "), examples ", status.examples(),
                      ", splits ", status.splits_done(), "/", status.splits(), ", duplicate ", counters.duplicate(),
                      ", fenced ", counters.fenced(), ", misaligned ", counters.misaligned(), ", out of order ",
                      counters.out_of_order(), ", retries ", counters.retries());
}

std::string TestData(const std::string& name) {
  const char* base = std::getenv("SHOAL_TEST_DATA");
  return base == nullptr || *base == '\0' ? "" : absl::StrCat(base, "/", name);
}

}  // namespace shoal
