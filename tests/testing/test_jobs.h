// Jobs for cluster tests: from a few lines of YAML, with folders that vanish.
#ifndef SHOAL_TESTS_TESTING_TEST_JOBS_H_
#define SHOAL_TESTS_TESTING_TEST_JOBS_H_

#include <string>
#include <vector>

#include "proto/job.pb.h"
#include "proto/scheduler.pb.h"

namespace shoal {

// A folder under TEST_TMPDIR (else TMPDIR, else /tmp), removed with its content by the destructor.
class TempDir {
 public:
  TempDir();
  ~TempDir();
  TempDir(const TempDir&) = delete;
  TempDir& operator=(const TempDir&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Loads the job from text; paths in it are relative to `dir`. Throws std::runtime_error (a failed test) if it is bad.
Job TestJob(const std::string& yaml, const std::string& dir, const std::vector<std::string>& overrides = {});

// The counting job over `rows` synthetic rows, with checkpoints in `dir`/ckpt; `sync` is YAML such as "asp".
Job CountingJob(const std::string& dir, uint64_t rows, uint32_t passes, const std::string& sync);

// One line with a job's state, reason and counters, for failed assertions.
std::string Describe(const JobStatus& status);

// Path of a folder or file of the shared test data, from SHOAL_TEST_DATA; empty when the variable is not set.
std::string TestData(const std::string& name);

}  // namespace shoal

#endif  // SHOAL_TESTS_TESTING_TEST_JOBS_H_
