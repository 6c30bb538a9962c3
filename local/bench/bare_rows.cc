#include "local/bench/bare_rows.h"

#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "server/store/key_hash.h"

namespace shoal {
namespace {

// The middle of the loads at which KeyIndex grows.
constexpr double kLoad = 0.72;
// Accesses in flight: entries are asked for this far ahead, rows half as far. Best of 8 to 64 on the machines tried.
constexpr size_t kAhead = 32;
constexpr size_t kLineFloats = 16;

void* Map(size_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  SHOAL_CHECK(memory != MAP_FAILED);
  (void)madvise(memory, bytes, MADV_HUGEPAGE);
  return memory;
}

// Rows start anywhere in a line, so the last one is asked for by its end.
template <int kWrite>
void PrefetchRow(const float* row, size_t floats) {
  for (size_t i = 0; i < floats; i += kLineFloats) __builtin_prefetch(row + i, kWrite);
  __builtin_prefetch(row + floats - 1, kWrite);
}

// Compiled for what the machine has, like the store's kernels.
__attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3", "default"))) void Step(float* row, const float* sums,
                                                                                        float scale, size_t dim) {
  float squares = 0;
  for (size_t i = 0; i < dim; ++i) {
    const float g = sums[i] * scale;
    squares += g * g;
  }
  const float a = row[dim] + squares / static_cast<float>(dim);
  row[dim] = a;
  const float step = 0.05f * scale / (std::sqrt(a) + 1e-8f);
  for (size_t i = 0; i < dim; ++i) row[i] -= step * sums[i];
}

}  // namespace

BareRows::BareRows(uint64_t rows, uint32_t dim, uint32_t partitions)
    : rows_(rows / partitions * partitions), dim_(dim), stride_(uint64_t{dim} + 1), partitions_(partitions) {
  entries_per_partition_ = static_cast<uint64_t>(static_cast<double>(rows_ / partitions_) / kLoad) + 1;
  entry_bytes_ = entries_per_partition_ * partitions_ * sizeof(Entry);
  value_bytes_ = rows_ * stride_ * sizeof(float);
  entries_ = static_cast<Entry*>(Map(entry_bytes_));
  values_ = static_cast<float*>(Map(value_bytes_));
  std::fill_n(values_, rows_ * stride_, 0.01f);
  const uint64_t per_partition = rows_ / partitions_;
  for (uint64_t i = 0; i < entries_per_partition_ * partitions_; ++i) {
    const uint64_t partition = i / entries_per_partition_;
    entries_[i].row = static_cast<uint32_t>(partition * per_partition + Mix64(i) % per_partition);
  }
}

BareRows::~BareRows() {
  munmap(entries_, entry_bytes_);
  munmap(values_, value_bytes_);
}

std::vector<uint64_t> BareRows::PlacesOf(absl::Span<const uint64_t> keys) const {
  std::vector<uint64_t> places;
  for (uint64_t key : keys) {
    const KeyPlace place = PlaceOfKey(key, partitions_);
    const unsigned __int128 within = static_cast<unsigned __int128>(place.within) * entries_per_partition_;
    places.push_back(place.partition * entries_per_partition_ + static_cast<uint64_t>(within >> 64));
  }
  return places;
}

void BareRows::Pull(absl::Span<const uint64_t> places, float* out) const {
  const size_t count = places.size();
  const auto ask = [&](size_t i) {
    if (i < count) __builtin_prefetch(&entries_[places[i]]);
  };
  const auto find = [&](size_t i) {
    if (i < count) PrefetchRow<0>(RowOf(entries_[places[i]]), dim_);
  };
  for (size_t i = 0; i < kAhead; ++i) ask(i);
  for (size_t i = 0; i < kAhead / 2; ++i) find(i);
  for (size_t i = 0; i < count; ++i, out += dim_) {
    ask(i + kAhead);
    find(i + kAhead / 2);
    std::memcpy(out, RowOf(entries_[places[i]]), dim_ * sizeof(float));
  }
}

void BareRows::Push(absl::Span<const uint64_t> places, const float* sums, float divisor) {
  const float scale = 1.0f / divisor;
  const size_t count = places.size();
  const auto ask = [&](size_t i) {
    if (i < count) __builtin_prefetch(&entries_[places[i]]);
  };
  const auto find = [&](size_t i) {
    if (i < count) PrefetchRow<1>(RowOf(entries_[places[i]]), stride_);
  };
  for (size_t i = 0; i < kAhead; ++i) ask(i);
  for (size_t i = 0; i < kAhead / 2; ++i) find(i);
  for (size_t i = 0; i < count; ++i, sums += dim_) {
    ask(i + kAhead);
    find(i + kAhead / 2);
    Step(const_cast<float*>(RowOf(entries_[places[i]])), sums, scale, dim_);
  }
}

}  // namespace shoal
