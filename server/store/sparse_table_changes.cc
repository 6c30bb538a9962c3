// What changed in a sparse table since a mark, and taking over such changes.
#include <algorithm>

#include "base/check.h"
#include "server/store/sparse_table.h"

namespace shoal {

ChangeLog* SparseTable::LogOf(TrackerId tracker) const {
  for (const auto& [id, log] : logs_) {
    if (id == tracker) return log.get();
  }
  return nullptr;
}

void SparseTable::Track(TrackerId tracker, uint64_t now) {
  logs_.emplace_back(tracker, std::make_unique<ChangeLog>(now));
}

void SparseTable::Untrack(TrackerId tracker) {
  logs_.erase(std::remove_if(logs_.begin(), logs_.end(), [&](const auto& log) { return log.first == tracker; }),
              logs_.end());
}

void SparseTable::Note(uint64_t key) {
  const uint64_t at = index_.Find(key);
  if (at == KeyIndex::kNone) return;
  const KeyIndex::Cell& cell = index_.at(at);
  for (const auto& [id, log] : logs_) {
    if (cell.is_row()) {
      log->Row(cell.value, key, index_.cells());
    } else {
      log->Counted(key, index_.cells());
    }
  }
}

void SparseTable::VisitChanges(TrackerId tracker, uint64_t now, const ChangeVisitor& visitor) const {
  const ChangeLog* log = LogOf(tracker);
  SHOAL_CHECK(log != nullptr);
  std::vector<float> values(values_);
  const auto visit = [&](const KeyIndex::Cell& cell) {
    if (Expired(cell, now)) {
      // Said, because what the other side holds of it may seem to live a little longer: times of counted keys are
      // coarse.
      visitor.erased(cell.key);
    } else if (cell.is_row()) {
      const RowPlace place = PlaceOf(cell.value);
      CopyValues(place, &values);
      visitor.row(cell.key, cell.slot(), ttl_ ? Touched(place) : now, absl::MakeConstSpan(values));
    } else {
      visitor.counted(cell.key, cell.slot(), ttl_ ? cell.value * schema_.expiry.quantum : now, cell.count());
    }
  };
  // Keys that were erased and came back are among the changed ones.
  for (uint64_t key : log->ErasedKeys()) {
    if (index_.Find(key) == KeyIndex::kNone) visitor.erased(key);
  }
  if (log->listed()) {
    for (uint64_t key : log->Keys()) {
      const uint64_t at = index_.Find(key);
      if (at != KeyIndex::kNone) visit(index_.at(at));
    }
    return;
  }
  const uint64_t since = log->since() / schema_.expiry.quantum;
  for (uint64_t at = 0; at < index_.cells(); ++at) {
    if (!index_.used(at)) continue;
    const KeyIndex::Cell& cell = index_.at(at);
    // A counted key that was touched in the quantum of the mark may be said without need, which does no harm.
    const bool changed = cell.is_row() ? log->Changed(cell.value) : cell.value >= since;
    if (changed) visit(cell);
  }
}

void SparseTable::ClearChanges(TrackerId tracker, uint64_t now) {
  ChangeLog* log = LogOf(tracker);
  SHOAL_CHECK(log != nullptr);
  if (log->listed()) {
    for (uint64_t key : log->Keys()) {
      const uint64_t at = index_.Find(key);
      if (at != KeyIndex::kNone && index_.at(at).is_row()) log->ClearRow(index_.at(at).value);
    }
  } else {
    log->ClearRows();
  }
  log->ClearLists(now);
}

void SparseTable::UpsertRow(uint64_t key, uint32_t slot, uint64_t touched, absl::Span<const float> values,
                            PushTally* tally) {
  uint64_t cell = index_.Find(key);
  if (cell != KeyIndex::kNone && index_.at(cell).slot() != slot) {
    EraseCell(cell, tally);
    cell = KeyIndex::kNone;
  }
  const bool there = cell != KeyIndex::kNone && index_.at(cell).is_row();
  const RowPlace place = there ? PlaceOf(index_.at(cell).value) : CreateRow(key, slot, cell, tally);
  SetValues(place, values.subspan(0, values_));
  if (ttl_) Touch(place, touched);
}

void SparseTable::UpsertCounted(uint64_t key, uint32_t slot, uint64_t touched, uint32_t count, PushTally* tally) {
  Erase(key, tally);
  (void)RestoreCounted(key, slot, touched, count, tally);
}

void SparseTable::Erase(uint64_t key, PushTally* tally) {
  const uint64_t cell = index_.Find(key);
  if (cell != KeyIndex::kNone) EraseCell(cell, tally);
}

}  // namespace shoal
