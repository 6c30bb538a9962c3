#include "base/buffer_pool.h"

#include <sanitizer/asan_interface.h>

#include <limits>
#include <new>
#include <utility>

#include "base/check.h"

namespace shoal {

// Lies before the memory that is handed out.
struct alignas(BufferPool::kAlignment) BufferPool::Block {
  std::shared_ptr<BufferPool> pool;  // while it is taken; null: none
  size_t bytes = 0;                  // of the block, this head included
  size_t index = 0;                  // of its class
  // While it is idle:
  uint64_t given = 0;  // number of the gift
  Block* newer = nullptr;
  Block* older = nullptr;

  void* memory() { return this + 1; }
  size_t memory_bytes() const { return bytes - sizeof(Block); }
  // Under ASAN only the first `count` bytes may be touched, so that it finds here what it would find of malloc's
  // blocks.
  void Allow(size_t count) {
    ASAN_UNPOISON_MEMORY_REGION(memory(), count);
    ASAN_POISON_MEMORY_REGION(static_cast<char*>(memory()) + count, memory_bytes() - count);
  }
  static Block* Of(void* memory) { return static_cast<Block*>(memory) - 1; }
};

std::shared_ptr<BufferPool> BufferPool::Create(uint64_t most_idle_bytes) {
  return std::shared_ptr<BufferPool>(new BufferPool(most_idle_bytes));
}

BufferPool::~BufferPool() {
  MutexLock lock(&mu_);
  while (idle_bytes_ > 0) FreeBlock(RemoveOldest());
}

BufferPool::Block* BufferPool::NewBlock(size_t bytes) {
  auto* const block = new (::operator new (bytes, std::align_val_t{kAlignment})) Block;
  block->bytes = bytes;
  return block;
}

void BufferPool::FreeBlock(Block* block) {
  block->Allow(block->memory_bytes());
  block->~Block();
  ::operator delete (block, std::align_val_t{kAlignment});
}

size_t BufferPool::ClassOf(size_t bytes) {
  const size_t last = bytes - 1;
  const size_t power = 63 - static_cast<size_t>(__builtin_clzll(last));
  return 4 * (power - 12) + (last >> (power - 2) & 3);
}

size_t BufferPool::ClassBytes(size_t index) { return (index % 4 + 5) << (index / 4 + 10); }

void* BufferPool::Take(size_t bytes, BufferPool* pool) {
  SHOAL_CHECK(bytes < std::numeric_limits<size_t>::max() / 4);
  const size_t all = bytes + sizeof(Block);
  if (pool == nullptr || bytes < kLeastBytes) return NewBlock(all)->memory();
  const size_t index = ClassOf(all);
  Block* block = pool->TakeIdle(index);
  if (block == nullptr) block = NewBlock(ClassBytes(index));
  block->index = index;
  block->pool = pool->shared_from_this();
  block->Allow(bytes);
  return block->memory();
}

void BufferPool::Give(void* memory) {
  if (memory == nullptr) return;
  Block* const block = Block::Of(memory);
  // Not by the block itself any more: idle ones do not keep the pool alive.
  const std::shared_ptr<BufferPool> pool = std::exchange(block->pool, nullptr);
  if (pool == nullptr) return FreeBlock(block);
  pool->GiveIdle(block);
}

BufferPool::Block* BufferPool::TakeIdle(size_t index) {
  MutexLock lock(&mu_);
  Class& idle = idle_[index];
  Block* const block = idle.newest;  // its memory is most likely still in a cache
  if (block == nullptr) return nullptr;
  idle.newest = block->older;
  (idle.newest == nullptr ? idle.oldest : idle.newest->newer) = nullptr;
  idle_bytes_ -= block->bytes;
  return block;
}

void BufferPool::GiveIdle(Block* block) {
  block->Allow(0);
  Block* freed = nullptr;  // by `older`
  {
    MutexLock lock(&mu_);
    if (block->bytes > most_idle_bytes_) {
      block->older = nullptr;
      freed = block;
    } else {
      Class& idle = idle_[block->index];
      block->given = ++given_;
      block->newer = nullptr;
      block->older = idle.newest;
      (idle.newest == nullptr ? idle.oldest : idle.newest->newer) = block;
      idle.newest = block;
      idle_bytes_ += block->bytes;
      while (idle_bytes_ > most_idle_bytes_) {
        Block* const oldest = RemoveOldest();
        oldest->older = std::exchange(freed, oldest);
      }
    }
  }
  while (freed != nullptr) FreeBlock(std::exchange(freed, freed->older));
}

BufferPool::Block* BufferPool::RemoveOldest() {
  Class* of = nullptr;
  for (Class& idle : idle_) {
    if (idle.oldest != nullptr && (of == nullptr || idle.oldest->given < of->oldest->given)) of = &idle;
  }
  Block* const block = of->oldest;
  of->oldest = block->newer;
  (of->oldest == nullptr ? of->newest : of->oldest->older) = nullptr;
  idle_bytes_ -= block->bytes;
  return block;
}

uint64_t BufferPool::idle_bytes() const {
  MutexLock lock(&mu_);
  return idle_bytes_;
}

void* BufferPool::do_allocate(size_t bytes, size_t alignment) {
  SHOAL_CHECK(alignment <= kAlignment);
  return Take(bytes, this);
}

void BufferPool::do_deallocate(void* memory, size_t, size_t) { Give(memory); }

}  // namespace shoal
