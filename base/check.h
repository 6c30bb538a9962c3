// SHOAL_CHECK: dies with a message when an invariant of our own is broken. Never for anything that came from outside
// (network, files, flags): those get an absl::Status.
#ifndef SHOAL_BASE_CHECK_H_
#define SHOAL_BASE_CHECK_H_

#include <cstdio>
#include <cstdlib>

namespace shoal::internal {
[[noreturn]] inline void CheckFailed(const char* file, int line, const char* condition) {
  std::fprintf(stderr, "%s:%d: broken invariant: %s\n", file, line, condition);
  std::abort();
}
}  // namespace shoal::internal

#define SHOAL_CHECK(condition) ((condition) ? (void)0 : ::shoal::internal::CheckFailed(__FILE__, __LINE__, #condition))

#endif  // SHOAL_BASE_CHECK_H_
