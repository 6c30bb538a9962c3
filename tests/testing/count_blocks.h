// Counts large blocks that a program takes from malloc. For tests that are about memory: linking it replaces malloc.
#ifndef SHOAL_TESTS_TESTING_COUNT_BLOCKS_H_
#define SHOAL_TESTS_TESTING_COUNT_BLOCKS_H_

#include <cstddef>
#include <cstdint>
#include <string>

namespace shoal {

// What is smaller, malloc finds in lists of its own.
inline constexpr size_t kLargeBlock = 4096;

struct BlockCounts {
  uint64_t ours = 0;
  uint64_t grpc = 0;
};

enum class CountedThreads { kAll, kThis };

// Begins to count blocks of kLargeBlock and more, from zero. Who asked for a block shows in the stack:
// the nearest function that is not in a library for general use (C, C++, Abseil, protobuf) is in one of gRPC's
// libraries, in oneDNN's, which is not counted, or it is ours.
void StartCounting(CountedThreads threads);
BlockCounts StopCounting();
// The stacks of the first few of our blocks, for people.
std::string CountedStacks();

}  // namespace shoal

#endif  // SHOAL_TESTS_TESTING_COUNT_BLOCKS_H_
