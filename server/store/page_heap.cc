#include "server/store/page_heap.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>

#include "base/check.h"

namespace shoal {
namespace {

constexpr uint64_t kCacheLineBytes = 64;
// Blocks begin and end at such boundaries.
constexpr uint64_t kUnitBytes = 4 << 10;
// Only addresses: memory comes with the first touch.
constexpr uint64_t kChunkBytes = 16 * kHugePageBytes;

uint64_t RoundUp(uint64_t bytes, uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

// The distance from `at` up to the next huge page, or down to the one it is in.
uint64_t ToNextPage(const char* at) {
  const uint64_t address = reinterpret_cast<uintptr_t>(at);
  return RoundUp(address, kHugePageBytes) - address;
}
uint64_t IntoPage(const char* at) { return reinterpret_cast<uintptr_t>(at) % kHugePageBytes; }

// Gives back the huge pages that a block was in, or in part, and of which nothing in [begin, end) is used any more.
void ReleasePages(char* begin, char* end, const char* block, uint64_t bytes) {
  begin = std::max(begin, const_cast<char*>(block) - IntoPage(block));
  begin += ToNextPage(begin);
  end = std::min(end, const_cast<char*>(block) + bytes + ToNextPage(block + bytes));
  end -= IntoPage(end);
  if (begin < end) (void)madvise(begin, static_cast<size_t>(end - begin), MADV_DONTNEED);
}

}  // namespace

void* MapHugePages(uint64_t bytes) {
  const uint64_t more = bytes + kHugePageBytes;
  void* const mapped = mmap(nullptr, more, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  SHOAL_CHECK(mapped != MAP_FAILED);
  char* const begin = static_cast<char*>(mapped);
  const uint64_t head = ToNextPage(begin);
  if (head != 0) munmap(begin, head);
  munmap(begin + head + bytes, more - head - bytes);
  (void)madvise(begin + head, bytes, MADV_HUGEPAGE);
  return begin + head;
}

PageHeap::~PageHeap() {
  for (const Chunk& chunk : chunks_) munmap(chunk.begin, chunk.bytes);
}

void* PageHeap::Allocate(uint64_t bytes) {
  if (bytes < kSmallest) {
    void* const block = std::aligned_alloc(kCacheLineBytes, RoundUp(bytes, kCacheLineBytes));
    SHOAL_CHECK(block != nullptr);
    return block;
  }
  bytes = RoundUp(bytes, kUnitBytes);
  MutexLock lock(&mu_);
  auto found = std::find_if(free_.begin(), free_.end(), [&](const auto& some) { return some.second >= bytes; });
  if (found == free_.end()) {
    const uint64_t chunk = std::max(kChunkBytes, RoundUp(bytes, kHugePageBytes));
    chunks_.push_back({MapHugePages(chunk), chunk});
    found = free_.emplace(static_cast<char*>(chunks_.back().begin), chunk).first;
  }
  const auto [begin, size] = *found;
  free_.erase(found);
  if (size > bytes) free_.emplace(begin + bytes, size - bytes);
  return begin;
}

void PageHeap::Free(void* block, uint64_t bytes) {
  if (bytes < kSmallest) {
    std::free(block);
    return;
  }
  bytes = RoundUp(bytes, kUnitBytes);
  MutexLock lock(&mu_);
  auto at = free_.emplace(static_cast<char*>(block), bytes).first;
  const auto after = std::next(at);
  if (after != free_.end() && at->first + at->second == after->first) {
    at->second += after->second;
    free_.erase(after);
  }
  if (at != free_.begin()) {
    const auto before = std::prev(at);
    if (before->first + before->second == at->first) {
      before->second += at->second;
      free_.erase(at);
      at = before;
    }
  }
  ReleasePages(at->first, at->first + at->second, static_cast<const char*>(block), bytes);
}

uint64_t PageHeap::FreeBytes() const {
  MutexLock lock(&mu_);
  uint64_t sum = 0;
  for (const auto& [begin, bytes] : free_) sum += bytes;
  return sum;
}

}  // namespace shoal
