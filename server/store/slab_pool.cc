#include "server/store/slab_pool.h"

#include <sys/mman.h>

#include "base/check.h"

namespace shoal {
namespace {

// The size of a huge page on x86-64 and arm64.
constexpr uint64_t kHugePageBytes = uint64_t{2} << 20;
constexpr uint64_t kCacheLineBytes = 64;

uint64_t RoundUp(uint64_t bytes, uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

// Straight from the system at the boundary of a huge page: from malloc, the gaps in front of such boundaries would be
// memory that nothing large fits into.
void* MapAligned(uint64_t bytes) {
  const uint64_t more = bytes + kHugePageBytes;
  void* const mapped = mmap(nullptr, more, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  SHOAL_CHECK(mapped != MAP_FAILED);
  char* const begin = static_cast<char*>(mapped);
  const uint64_t head =
      RoundUp(reinterpret_cast<uintptr_t>(begin), kHugePageBytes) - reinterpret_cast<uintptr_t>(begin);
  if (head != 0) munmap(begin, head);
  munmap(begin + head + bytes, more - head - bytes);
  return begin + head;
}

}  // namespace

SlabPool::SlabPool(uint64_t slab_bytes)
    : slab_bytes_(RoundUp(slab_bytes, kCacheLineBytes)),
      chunk_bytes_(RoundUp(slab_bytes_, kHugePageBytes)),
      chunk_used_(chunk_bytes_) {}

SlabPool::~SlabPool() {
  for (void* chunk : chunks_) munmap(chunk, chunk_bytes_);
}

float* SlabPool::Allocate() {
  MutexLock lock(&mu_);
  if (!free_.empty()) {
    float* slab = free_.back();
    free_.pop_back();
    return slab;
  }
  if (chunk_used_ + slab_bytes_ > chunk_bytes_) {
    void* chunk = MapAligned(chunk_bytes_);
    // Advice only: without huge pages everything works, with more TLB misses.
    (void)madvise(chunk, chunk_bytes_, MADV_HUGEPAGE);
    chunks_.push_back(chunk);
    chunk_used_ = 0;
  }
  char* slab = static_cast<char*>(chunks_.back()) + chunk_used_;
  chunk_used_ += slab_bytes_;
  return reinterpret_cast<float*>(slab);
}

void SlabPool::Free(float* slab) {
  MutexLock lock(&mu_);
  free_.push_back(slab);
}

}  // namespace shoal
