// Memory for messages and scratch that is used over and over.
#ifndef SHOAL_BASE_BUFFER_POOL_H_
#define SHOAL_BASE_BUFFER_POOL_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>

#include "base/mutex.h"

namespace shoal {

// Blocks of memory, kept when they are given back, so that whoever works on the same sizes again and again allocates
// nothing and touches no fresh page. What is kept is bounded: beyond that, the blocks that were idle longest are freed.
// Blocks may be given back on any thread and after everybody else has dropped the pool. Containers with a polymorphic
// allocator can use it, too; for them it must outlive its blocks no less. Thread-safe.
class BufferPool : public std::pmr::memory_resource, public std::enable_shared_from_this<BufferPool> {
 public:
  static constexpr size_t kAlignment = 64;
  // malloc deals well with what is smaller than this: it goes there.
  static constexpr size_t kLeastBytes = 4096;

  static std::shared_ptr<BufferPool> Create(uint64_t most_idle_bytes);
  ~BufferPool() override;

  // At least `bytes` uninitialised bytes at kAlignment. `pool` may be null: then they come from operator new.
  static void* Take(size_t bytes, BufferPool* pool);
  // What Take returned, or null.
  static void Give(void* memory);

  // Of blocks that wait to be taken, at most most_idle_bytes.
  uint64_t idle_bytes() const;

 private:
  struct Block;
  // Four sizes for each power of two, from kLeastBytes: at most a quarter of a block is unused.
  static constexpr size_t kClasses = 4 * 52;
  struct Class {
    Block* newest = nullptr;
    Block* oldest = nullptr;
  };

  explicit BufferPool(uint64_t most_idle_bytes) : most_idle_bytes_(most_idle_bytes) {}
  static Block* NewBlock(size_t bytes);
  static void FreeBlock(Block* block);
  static size_t ClassOf(size_t bytes);
  static size_t ClassBytes(size_t index);
  Block* TakeIdle(size_t index);
  void GiveIdle(Block* block);
  // Takes the block that has been idle longest out of its list.
  Block* RemoveOldest() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void* do_allocate(size_t bytes, size_t alignment) override;
  void do_deallocate(void* memory, size_t bytes, size_t alignment) override;
  bool do_is_equal(const std::pmr::memory_resource& other) const noexcept override { return this == &other; }

  const uint64_t most_idle_bytes_;
  mutable Mutex mu_;
  uint64_t idle_bytes_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t given_ ABSL_GUARDED_BY(mu_) = 0;
  std::array<Class, kClasses> idle_ ABSL_GUARDED_BY(mu_);
};

}  // namespace shoal

#endif  // SHOAL_BASE_BUFFER_POOL_H_
