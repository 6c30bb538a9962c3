#include "server/store/slab_pool.h"

#include <sys/mman.h>

#include "server/store/page_heap.h"

namespace shoal {
namespace {

constexpr uint64_t kCacheLineBytes = 64;

uint64_t RoundUp(uint64_t bytes, uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

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
    chunks_.push_back(MapHugePages(chunk_bytes_));
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
