#include "server/store/slab_pool.h"

#include <sys/mman.h>

#include <cstdlib>

#include "base/check.h"

namespace shoal {
namespace {

// The size of a huge page on x86-64 and arm64.
constexpr uint64_t kHugePageBytes = uint64_t{2} << 20;
constexpr uint64_t kCacheLineBytes = 64;

uint64_t RoundUp(uint64_t bytes, uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

SlabPool::SlabPool(uint64_t slab_bytes)
    : slab_bytes_(RoundUp(slab_bytes, kCacheLineBytes)),
      chunk_bytes_(RoundUp(slab_bytes_, kHugePageBytes)),
      chunk_used_(chunk_bytes_) {}

SlabPool::~SlabPool() {
  for (void* chunk : chunks_) std::free(chunk);
}

float* SlabPool::Allocate() {
  MutexLock lock(&mu_);
  if (!free_.empty()) {
    float* slab = free_.back();
    free_.pop_back();
    return slab;
  }
  if (chunk_used_ + slab_bytes_ > chunk_bytes_) {
    void* chunk = std::aligned_alloc(kHugePageBytes, chunk_bytes_);
    SHOAL_CHECK(chunk != nullptr);
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
