#include "server/store/row_stream.h"

#include <algorithm>

#include "base/check.h"
#include "server/store/partition.h"
#include "server/store/sparse_table.h"

namespace shoal {
namespace {

constexpr uint64_t kLineFloats = 16;

// Inlined by force: gcc drops calls of a function that does nothing but ask.
__attribute__((always_inline)) inline void PrefetchFloats(const float* values, uint64_t count) {
  __builtin_prefetch(values);
  for (uint64_t i = kLineFloats; i < count; i += kLineFloats) __builtin_prefetch(values + i);
  // They may start anywhere in a line.
  if (count % kLineFloats > 1) __builtin_prefetch(values + count - 1);
}

}  // namespace

RowStream::RowStream(absl::Span<const Run> runs, bool states) : runs_(runs), states_(states) {
  for (const Run& run : runs) total_ += run.keys.size();
  Ask(kLook + kAsk);
}

RowStream::~RowStream() {
  while (held_ > 0) Leave();
}

void RowStream::Lock(const Partition* partition) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  if (partition != nullptr) partition->mu_.Lock();
}

bool RowStream::TryLock(const Partition* partition) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  return partition == nullptr || partition->mu_.TryLock();
}

void RowStream::Unlock(const Partition* partition) ABSL_NO_THREAD_SAFETY_ANALYSIS {
  if (partition != nullptr) partition->mu_.Unlock();
}

void RowStream::Enter() {
  if (entered_ <= taken_.run) {
    SHOAL_CHECK(held_ == 0);
    Lock(runs_[taken_.run].partition);
    ++held_;
    entered_ = taken_.run + 1;
    looked_ = taken_;
  }
  Ahead(taken_.passed + kLook);
}

void RowStream::Leave() {
  const Partition* const partition = runs_[taken_.run].partition;
  do {
    taken_.passed += runs_[taken_.run].keys.size() - taken_.at;
    taken_.at = 0;
    ++taken_.run;
  } while (taken_.run < runs_.size() && !First(taken_.run));
  // What was not taken is passed over.
  if (entered_ < taken_.run) entered_ = taken_.run;
  if (looked_.passed < taken_.passed) looked_ = {taken_.passed, taken_.run - 1, runs_[taken_.run - 1].keys.size()};
  if (asked_.passed < taken_.passed) asked_ = taken_;
  while (pending_begin_ != pending_end_ && pending_[pending_begin_ % kRing].number < taken_.passed) ++pending_begin_;
  Unlock(partition);
  --held_;
}

void RowStream::Next(uint64_t count) {
  while (taken_.at == runs_[taken_.run].keys.size()) ++taken_.run, taken_.at = 0;
  began_ = taken_.passed;
  taken_.passed += count;
  taken_.at += count;
  Ahead(taken_.passed + kLook);
  FindPending(std::max(taken_.passed, looked_.passed - std::min(looked_.passed, kFind)));
  AskAgain();
}

void RowStream::AskAgain() const {
  const uint64_t end = std::min(taken_.passed + kMost, looked_.passed);
  for (uint64_t key = taken_.passed; key < end; ++key) {
    __builtin_prefetch(rows_[key % kRing]);
    if (states_) __builtin_prefetch(row_states_[key % kRing]);
  }
}

bool RowStream::TryEnter() {
  if (entered_ == runs_.size()) return false;
  if (First(entered_)) {
    if (held_ == kMostHeld || !TryLock(runs_[entered_].partition)) return false;
    ++held_;
  }
  looked_.run = entered_++;
  looked_.at = 0;
  return true;
}

void RowStream::Ahead(uint64_t keys) {
  Ask(keys + kAsk);
  keys = std::min(keys, total_);
  while (looked_.passed < keys) {
    const Run& run = runs_[looked_.run];
    const uint64_t count = std::min(keys - looked_.passed, run.keys.size() - looked_.at);
    if (count == 0) {
      if (!TryEnter()) return;
      continue;
    }
    if (states_) {
      Look<true>(run, count);
    } else {
      Look<false>(run, count);
    }
    looked_.passed += count;
    looked_.at += count;
  }
}

void RowStream::Ask(uint64_t keys) {
  keys = std::min(keys, total_);
  while (asked_.passed < keys) {
    const Run& run = runs_[asked_.run];
    const uint64_t count = std::min(keys - asked_.passed, run.keys.size() - asked_.at);
    if (asked_.at == 0 && asked_.run + 2 < runs_.size()) {
      const Run& later = runs_[asked_.run + 2];
      if (later.partition != nullptr) __builtin_prefetch(&later.partition->mu_);
      if (later.table != nullptr) later.table->PrefetchSelf();
    }
    if (count > 0) AskRun(run, count);
    asked_.passed += count;
    asked_.at += count;
    if (asked_.at == run.keys.size()) ++asked_.run, asked_.at = 0;
  }
}

void RowStream::AskRun(const Run& run, uint64_t count) {
  const KeyIndex& index = run.table->index_;
  const KeyIndex::Lines lines = index.HintedLines();
  const uint64_t* const keys = run.keys.data() + asked_.at;
  const uint64_t* const hashes = run.hashes.empty() ? nullptr : run.hashes.data() + asked_.at;
  for (uint64_t i = 0; i < count; ++i) {
    __builtin_prefetch(lines.First(hashes == nullptr ? index.HashOf(keys[i]) : hashes[i]));
  }
}

template <bool kStates>
void RowStream::Look(const Run& run, uint64_t count) {
  const SparseTable& table = *run.table;
  const KeyIndex::Lines lines = table.index_.lines();
  if (lines.count == 0) {
    for (uint64_t i = 0; i < count; ++i) rows_[(looked_.passed + i) % kRing] = nullptr;
    return;
  }
  const SparseTable::Slabs slabs = table.slabs();
  const uint64_t* const keys = run.keys.data() + looked_.at;
  const uint64_t* const hashes = run.hashes.empty() ? nullptr : run.hashes.data() + looked_.at;
  const uint64_t passed = looked_.passed;
  for (uint64_t i = 0; i < count; ++i) {
    const uint64_t hash = hashes == nullptr ? table.index_.HashOf(keys[i]) : hashes[i];
    const KeyIndex::Cell* const cell = KeyIndex::Lines::RowIn(lines.First(hash), keys[i]);
    const uint64_t at = (passed + i) % kRing;
    if (cell != nullptr) {
      const RowPlace row = slabs.At(cell->value);
      rows_[at] = row.weights;
      PrefetchFloats(row.weights, slabs.dim);
      if (kStates) {
        row_states_[at] = row.state;
        PrefetchFloats(row.state, slabs.state_floats);
      }
      continue;
    }
    rows_[at] = nullptr;
    __builtin_prefetch(lines.Second(hash));
    pending_[pending_end_++ % kRing] = {passed + i, keys[i], hash, &table};
  }
}

void RowStream::FindPending(uint64_t below) {
  for (; pending_begin_ != pending_end_; ++pending_begin_) {
    const Pending& pending = pending_[pending_begin_ % kRing];
    if (pending.number >= below) return;
    const SparseTable& table = *pending.table;
    const KeyIndex::Cell* cell = KeyIndex::Lines::RowIn(table.index_.lines().Second(pending.hash), pending.key);
    if (cell == nullptr) {
      const uint64_t at = table.index_.Find(pending.key);
      if (at == KeyIndex::kNone || !table.index_.at(at).is_row()) continue;
      cell = &table.index_.at(at);
    }
    const RowPlace row = table.PlaceOf(cell->value);
    rows_[pending.number % kRing] = row.weights;
    row_states_[pending.number % kRing] = row.state;
    PrefetchFloats(row.weights, table.dim_);
    if (states_) PrefetchFloats(row.state, table.state_floats_);
  }
}

}  // namespace shoal
