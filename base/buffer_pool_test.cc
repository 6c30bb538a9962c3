#include "base/buffer_pool.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <cstring>
#include <memory_resource>
#include <thread>
#include <utility>
#include <vector>

#include "base/random.h"

namespace shoal {
namespace {

TEST_CASE("BufferPool: what was given back is taken again, for sizes that are about the same", "[unit]") {
  const auto pool = BufferPool::Create(1 << 20);
  void* const first = BufferPool::Take(100000, pool.get());
  CHECK(reinterpret_cast<uintptr_t>(first) % BufferPool::kAlignment == 0);
  CHECK(pool->idle_bytes() == 0);
  BufferPool::Give(first);
  const uint64_t idle = pool->idle_bytes();
  CHECK((idle >= 100000 && idle <= 125000 + 4096));
  void* const small = BufferPool::Take(40000, pool.get());
  CHECK(small != first);
  void* const again = BufferPool::Take(99000, pool.get());
  CHECK(again == first);
  CHECK(pool->idle_bytes() == 0);
  BufferPool::Give(small);
  BufferPool::Give(again);
  BufferPool::Give(nullptr);
}

TEST_CASE("BufferPool: small blocks, and blocks of no pool, are not kept", "[unit]") {
  const auto pool = BufferPool::Create(1 << 20);
  for (size_t bytes : {size_t{0}, size_t{1}, size_t{4095}}) BufferPool::Give(BufferPool::Take(bytes, pool.get()));
  CHECK(pool->idle_bytes() == 0);
  BufferPool::Give(BufferPool::Take(1 << 20, nullptr));
  BufferPool::Give(BufferPool::Take(4096, pool.get()));
  CHECK(pool->idle_bytes() >= 4096);
}

TEST_CASE("BufferPool: every size is held by its block, of which at most a quarter is unused", "[unit]") {
  const auto pool = BufferPool::Create(uint64_t{1} << 40);
  for (int power = 12; power < 25; ++power) {
    for (int64_t off : {-65, -64, -63, -1, 0, 1, 63, 64, 65, 1000, 1024, 2000}) {
      const int64_t bytes = (int64_t{1} << power) + off;
      if (bytes < 4096) continue;
      void* const memory = BufferPool::Take(static_cast<size_t>(bytes), pool.get());
      const uint64_t before = pool->idle_bytes();
      std::memset(memory, 1, static_cast<size_t>(bytes));
      BufferPool::Give(memory);
      const uint64_t block = pool->idle_bytes() - before;
      INFO(bytes << " in " << block);
      CHECK(block >= static_cast<uint64_t>(bytes));
      CHECK(block <= (static_cast<uint64_t>(bytes) + 64) * 5 / 4 + 64);
    }
  }
}

TEST_CASE("BufferPool: what is idle is bounded, and what was idle longest goes first", "[unit]") {
  constexpr uint64_t kMost = 100000;
  const auto pool = BufferPool::Create(kMost);
  std::vector<void*> blocks;
  for (int i = 0; i < 10; ++i) blocks.push_back(BufferPool::Take(30000, pool.get()));
  for (void* block : blocks) {
    BufferPool::Give(block);
    CHECK(pool->idle_bytes() <= kMost);
  }
  CHECK(pool->idle_bytes() > kMost / 2);
  CHECK(BufferPool::Take(30000, pool.get()) == blocks[9]);
  BufferPool::Give(blocks[9]);
  // Another size takes the place of what nobody has asked for since.
  void* const other = BufferPool::Take(60000, pool.get());
  BufferPool::Give(other);
  CHECK(pool->idle_bytes() <= kMost);
  CHECK(BufferPool::Take(60000, pool.get()) == other);
  BufferPool::Give(other);
  // What would not fit alone is not kept, and drives nothing out.
  const uint64_t idle = pool->idle_bytes();
  BufferPool::Give(BufferPool::Take(2 * kMost, pool.get()));
  CHECK(pool->idle_bytes() == idle);
}

TEST_CASE("BufferPool: blocks outlive the owner of the pool", "[unit]") {
  auto pool = BufferPool::Create(1 << 20);
  const std::weak_ptr<BufferPool> watched = pool;
  void* const memory = BufferPool::Take(5000, pool.get());
  BufferPool::Give(BufferPool::Take(50000, pool.get()));
  pool.reset();
  CHECK_FALSE(watched.expired());
  std::memset(memory, 7, 5000);
  BufferPool::Give(memory);
  CHECK(watched.expired());
}

TEST_CASE("BufferPool: containers grow in it", "[unit]") {
  const auto pool = BufferPool::Create(1 << 20);
  {
    std::pmr::vector<uint64_t> numbers(pool.get());
    for (uint64_t i = 0; i < 10000; ++i) numbers.push_back(i);
    for (uint64_t i = 0; i < 10000; ++i) REQUIRE(numbers[i] == i);
  }
  const uint64_t idle = pool->idle_bytes();
  CHECK(idle > 80000);
  std::pmr::vector<uint64_t> again(10000, 1, pool.get());
  CHECK(pool->idle_bytes() < idle);
}

TEST_CASE("BufferPool: threads give back what others took", "[unit]") {
  constexpr uint64_t kMost = 1 << 20;
  const auto pool = BufferPool::Create(kMost);
  constexpr int kThreads = 4;
  Mutex mu;
  std::vector<std::pair<uint8_t*, size_t>> shared;
  std::atomic<int> damaged{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      Random random({static_cast<uint64_t>(t)});
      for (int i = 0; i < 2000; ++i) {
        const size_t bytes = 1000 + random.Below(60000);
        auto* const memory = static_cast<uint8_t*>(BufferPool::Take(bytes, pool.get()));
        memory[0] = memory[bytes - 1] = static_cast<uint8_t>(bytes);
        std::pair<uint8_t*, size_t> given{memory, bytes};
        {
          MutexLock lock(&mu);
          shared.push_back(given);
          std::swap(shared[random.Below(shared.size())], shared.back());
          if (shared.size() < 20) continue;
          given = shared.back();
          shared.pop_back();
        }
        if (given.first[0] != static_cast<uint8_t>(given.second) ||
            given.first[given.second - 1] != static_cast<uint8_t>(given.second)) {
          ++damaged;
        }
        BufferPool::Give(given.first);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& [memory, bytes] : shared) BufferPool::Give(memory);
  CHECK(damaged == 0);
  CHECK(pool->idle_bytes() <= kMost);
  CHECK(pool->idle_bytes() > 0);
}

}  // namespace
}  // namespace shoal
