#include "server/store/store_stats.h"

#include <algorithm>

namespace shoal {

void SlotCounts::Add(const SlotCounts& other) {
  rows += other.rows;
  keys += other.keys;
  guard_refused += other.guard_refused;
  not_admitted += other.not_admitted;
  memory_refused += other.memory_refused;
  expired += other.expired;
}

StoreStats::StoreStats(uint64_t tables, uint32_t slots)
    : table_bytes(tables), slots_(slots), counters_(tables * slots) {}

bool StoreStats::TryReserve(uint64_t bytes, uint64_t limit_bytes) {
  const int64_t more = static_cast<int64_t>(bytes);
  const int64_t promised = reserved_bytes.fetch_add(more) + more;
  if (used_bytes.load() + promised <= static_cast<int64_t>(limit_bytes)) return true;
  reserved_bytes -= more;
  return false;
}

void StoreStats::Add(uint32_t table, uint32_t slot, const SlotCounts& counts) {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  Counters& to = counters_[uint64_t{table} * slots_ + slot];
  if (counts.rows != 0) to.rows.fetch_add(counts.rows, kRelaxed);
  if (counts.keys != 0) to.keys.fetch_add(counts.keys, kRelaxed);
  if (counts.guard_refused != 0) to.guard_refused.fetch_add(counts.guard_refused, kRelaxed);
  if (counts.not_admitted != 0) to.not_admitted.fetch_add(counts.not_admitted, kRelaxed);
  if (counts.memory_refused != 0) to.memory_refused.fetch_add(counts.memory_refused, kRelaxed);
  if (counts.expired != 0) to.expired.fetch_add(counts.expired, kRelaxed);
}

SlotCounts StoreStats::Of(uint32_t table, uint32_t slot) const {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  const Counters& from = counters_[uint64_t{table} * slots_ + slot];
  SlotCounts out;
  out.rows = from.rows.load(kRelaxed);
  out.keys = from.keys.load(kRelaxed);
  out.guard_refused = from.guard_refused.load(kRelaxed);
  out.not_admitted = from.not_admitted.load(kRelaxed);
  out.memory_refused = from.memory_refused.load(kRelaxed);
  out.expired = from.expired.load(kRelaxed);
  return out;
}

SlotCounts StoreStats::OfTable(uint32_t table) const {
  SlotCounts out;
  for (uint32_t slot = 0; slot < slots_; ++slot) out.Add(Of(table, slot));
  return out;
}

SlotCounts& PushTally::At(uint32_t table, uint32_t slot) {
  if (entry_of_.empty()) entry_of_.resize(stats_->table_bytes.size() * stats_->slots());
  uint32_t& entry = entry_of_[uint64_t{table} * stats_->slots() + slot];
  if (entry == 0) {
    entries_.push_back({table, slot, {}});
    entry = static_cast<uint32_t>(entries_.size());
  }
  return entries_[entry - 1].counts;
}

void PushTally::RefuseBlocks(uint32_t tensor, uint64_t blocks) {
  const auto it = std::find_if(dense_.begin(), dense_.end(), [&](const auto& d) { return d.tensor == tensor; });
  if (it != dense_.end()) {
    it->blocks += blocks;
  } else {
    dense_.push_back({tensor, blocks});
  }
}

void PushTally::Publish() {
  for (const Entry& entry : entries_) stats_->Add(entry.table, entry.slot, entry.counts);
  for (const DenseRefused& dense : dense_) {
    stats_->dense_refused.fetch_add(dense.blocks, std::memory_order_relaxed);
  }
  Clear();
}

void PushTally::Take(PushTally* other) {
  for (const Entry& entry : other->entries_) At(entry.table, entry.slot).Add(entry.counts);
  for (const DenseRefused& dense : other->dense_) RefuseBlocks(dense.tensor, dense.blocks);
  other->Clear();
}

void PushTally::Clear() {
  for (const Entry& entry : entries_) entry_of_[uint64_t{entry.table} * stats_->slots() + entry.slot] = 0;
  entries_.clear();
  dense_.clear();
}

}  // namespace shoal
