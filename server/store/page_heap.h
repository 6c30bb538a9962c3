// Memory for blocks of any size that lie on huge pages.
#ifndef SHOAL_SERVER_STORE_PAGE_HEAP_H_
#define SHOAL_SERVER_STORE_PAGE_HEAP_H_

#include <cstdint>
#include <map>
#include <vector>

#include "base/mutex.h"

namespace shoal {

// The size of a huge page on x86-64 and arm64.
inline constexpr uint64_t kHugePageBytes = uint64_t{2} << 20;

// Memory straight from the system, aligned to a huge page and advised to consist of them; without huge pages everything
// works, with more TLB misses. From malloc, the gaps in front of such boundaries would be memory that nothing large
// fits into. REQUIRES: `bytes` is a multiple of kHugePageBytes. Dies when the system has no memory. To be unmapped.
void* MapHugePages(uint64_t bytes);

// Cuts blocks from large chunks, the first that fits in the order of addresses, so that many blocks of some hundred
// KiB share huge pages; what malloc hands out at that size lies on small ones. Huge pages of which no part is in use go
// back to the system at once, the addresses with the heap. Blocks below kSmallest come from malloc: they would keep a
// huge page for little. Thread-safe. Each call searches the free blocks one by one: meant for blocks that live long.
class PageHeap {
 public:
  static constexpr uint64_t kSmallest = 128 << 10;

  PageHeap() = default;
  ~PageHeap();
  PageHeap(const PageHeap&) = delete;
  PageHeap& operator=(const PageHeap&) = delete;

  // Aligned to a cache line; contents are unspecified. Dies when the system has no memory.
  void* Allocate(uint64_t bytes);
  // REQUIRES: `block` is of Allocate(bytes).
  void Free(void* block, uint64_t bytes);

  // Addresses that are not in use, for tests.
  uint64_t FreeBytes() const;

 private:
  struct Chunk {
    void* begin;
    uint64_t bytes;
  };

  mutable Mutex mu_;
  std::vector<Chunk> chunks_ ABSL_GUARDED_BY(mu_);
  std::map<char*, uint64_t> free_ ABSL_GUARDED_BY(mu_);  // begin -> bytes; no two of them touch
};

}  // namespace shoal

#endif  // SHOAL_SERVER_STORE_PAGE_HEAP_H_
