// Work on many things, some of them at a time.
#ifndef SHOAL_BASE_SIDE_BY_SIDE_H_
#define SHOAL_BASE_SIDE_BY_SIDE_H_

#include <cstddef>
#include <cstdint>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace shoal {

// Calls work(i) for each i below `count`, on at most `at_once` threads, the caller's among them, and returns when all
// have returned. They start in order; while any is under way the sum of bytes(i) of those stays at or below
// `most_bytes`, but for one that is larger by itself. After an error no other is started; the first one is returned.
absl::Status SideBySide(size_t count, uint32_t at_once, uint64_t most_bytes, absl::FunctionRef<uint64_t(size_t)> bytes,
                        absl::FunctionRef<absl::Status(size_t)> work);

}  // namespace shoal

#endif  // SHOAL_BASE_SIDE_BY_SIDE_H_
