// What each test of the counting job ends with. Uses Catch2: for tests only.
#ifndef SHOAL_TESTS_TESTING_EXACT_COUNTS_H_
#define SHOAL_TESTS_TESTING_EXACT_COUNTS_H_

#include <catch2/catch.hpp>

#include "tests/testing/counting.h"
#include "tests/testing/test_jobs.h"

namespace shoal {

// The newest checkpoint of the counting job holds each record as often as there are passes.
inline void RequireExact(const Job& job) {
  const absl::StatusOr<Counts> expected = ExpectedCounts(job);
  const absl::StatusOr<Counts> actual = CheckpointCounts(job);
  INFO(actual.status().ToString());
  REQUIRE(expected.ok());
  REQUIRE(actual.ok());
  REQUIRE(CountsDifference(*expected, *actual) == "");
}

// ... after it has succeeded.
inline void RequireExact(const Job& job, const absl::StatusOr<JobStatus>& status) {
  INFO(status.status().ToString());
  REQUIRE(status.ok());
  INFO(Describe(*status));
  REQUIRE(status->state() == SUCCEEDED);
  RequireExact(job);
}

}  // namespace shoal

#endif  // SHOAL_TESTS_TESTING_EXACT_COUNTS_H_
