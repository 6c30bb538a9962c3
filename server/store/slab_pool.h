// Memory of a table: equal slabs for rows, cut from large chunks that ask for huge pages, and blocks for indexes.
#ifndef SHOAL_SERVER_STORE_SLAB_POOL_H_
#define SHOAL_SERVER_STORE_SLAB_POOL_H_

#include <cstdint>
#include <vector>

#include "base/mutex.h"
#include "server/store/page_heap.h"

namespace shoal {

// Hands out slabs of one size to the partitions of one table. Thread-safe; called once per slab, so a lock is cheap.
// Slabs that come back are handed out again; chunks return to the system with the pool.
class SlabPool {
 public:
  explicit SlabPool(uint64_t slab_bytes);
  ~SlabPool();
  SlabPool(const SlabPool&) = delete;
  SlabPool& operator=(const SlabPool&) = delete;

  uint64_t slab_bytes() const { return slab_bytes_; }
  // Contents are unspecified; aligned to a cache line. Dies when the system has no memory.
  float* Allocate();
  void Free(float* slab);
  // For the indexes of the partitions.
  PageHeap* heap() { return &heap_; }

 private:
  const uint64_t slab_bytes_;
  const uint64_t chunk_bytes_;
  PageHeap heap_;
  Mutex mu_;
  std::vector<void*> chunks_ ABSL_GUARDED_BY(mu_);
  std::vector<float*> free_ ABSL_GUARDED_BY(mu_);
  uint64_t chunk_used_ ABSL_GUARDED_BY(mu_);  // bytes of the last chunk
};

}  // namespace shoal

#endif  // SHOAL_SERVER_STORE_SLAB_POOL_H_
