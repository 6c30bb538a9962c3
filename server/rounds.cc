#include "server/rounds.h"

#include <algorithm>
#include <limits>

#include "server/request_checks.h"

namespace shoal {

Contribution::Contribution(const JobSchema& schema, const PushRequest& request, uint64_t reserved_bytes)
    : schema_(schema),
      range_(RangeOf(schema, request)),
      reserved_bytes_(reserved_bytes),
      partitions_(request.partitions.begin(), request.partitions.end()),
      dense_(request.dense.begin(), request.dense.end()) {
  for (const PushGroup& from : request.groups) {
    Group group;
    group.keys.assign(from.keys.begin(), from.keys.end());
    group.starts.push_back(0);
    for (uint32_t count : from.counts) group.starts.push_back(group.starts.back() + count);
    group.tables.assign(from.tables.begin(), from.tables.end());
    for (size_t t = 0; t < from.tables.size(); ++t) {
      const float* values = from.gradients[t];
      group.gradients.emplace_back(values, values + from.keys.size() * schema.tables[from.tables[t]].dim);
    }
    group.occurrences.assign(from.occurrences.begin(), from.occurrences.end());
    group.slots.assign(from.slots.begin(), from.slots.end());
    group.slot = from.slot;
    groups_.push_back(std::move(group));
  }
  uint64_t start = 0;
  for (uint32_t partition : partitions_) {
    dense_starts_.push_back(start);
    start += schema.layout.FloatsOf(partition);
  }
}

void Contribution::GradientsOf(uint32_t partition, std::vector<RowGradients>* rows, const float** dense) const {
  const auto it = std::lower_bound(partitions_.begin(), partitions_.end(), partition);
  if (it == partitions_.end() || *it != partition) return;
  const size_t entry = static_cast<size_t>(it - partitions_.begin());
  for (const Group& group : groups_) {
    const uint64_t begin = group.starts[entry], count = group.starts[entry + 1] - begin;
    if (count == 0) continue;
    for (size_t t = 0; t < group.tables.size(); ++t) {
      RowGradients out;
      out.table = group.tables[t];
      out.keys = absl::MakeConstSpan(group.keys).subspan(begin, count);
      out.sums = group.gradients[t].data() + begin * schema_.tables[out.table].dim;
      if (!group.occurrences.empty()) out.occurrences = absl::MakeConstSpan(group.occurrences).subspan(begin, count);
      if (!group.slots.empty()) out.slots = absl::MakeConstSpan(group.slots).subspan(begin, count);
      out.slot = group.slot;
      rows->push_back(out);
    }
  }
  if (!dense_.empty()) *dense = dense_.data() + dense_starts_[entry];
}

bool Rounds::Mark(uint32_t lane, uint64_t round) {
  if (round > applied_) return false;
  if (round == applied_) lanes_[lane].marked = true;
  return true;
}

bool Rounds::Ready() const {
  bool any = false;
  for (const Lane& lane : lanes_) {
    if (!TakesPart(lane)) continue;
    if (lane.held == nullptr || !lane.marked) return false;
    any = true;
  }
  return any;
}

bool Rounds::Over() const {
  return std::none_of(lanes_.begin(), lanes_.end(), [this](const Lane& lane) { return TakesPart(lane); });
}

std::vector<const Contribution*> Rounds::Next() const {
  std::vector<const Contribution*> out;
  for (const Lane& lane : lanes_) {
    if (TakesPart(lane)) out.push_back(lane.held.get());
  }
  return out;
}

void Rounds::Advance() {
  ++applied_;
  for (Lane& lane : lanes_) {
    lane.held = nullptr;
    lane.marked = false;
  }
}

void RoundFold::Add(const RowGradients& rows) {
  TableSum& table = tables_[rows.table];
  const uint64_t dim = schema_.tables[rows.table].dim;
  for (size_t i = 0; i < rows.keys.size(); ++i) {
    const float* from = rows.sums + i * dim;
    const uint32_t occurrences = rows.occurrences.empty() ? 1 : rows.occurrences[i];
    const auto [it, fresh] = table.at.emplace(rows.keys[i], table.keys.size());
    if (fresh) {
      table.keys.push_back(rows.keys[i]);
      table.sums.insert(table.sums.end(), from, from + dim);
      table.occurrences.push_back(occurrences);
      table.slots.push_back(rows.SlotOf(i));
      continue;
    }
    float* sum = table.sums.data() + it->second * dim;
    for (uint64_t c = 0; c < dim; ++c) sum[c] += from[c];
    uint32_t& seen = table.occurrences[it->second];
    seen += std::min(occurrences, std::numeric_limits<uint32_t>::max() - seen);
  }
}

const PartitionGradients& RoundFold::Fold(uint32_t partition, absl::Span<const Contribution* const> contributions) {
  for (TableSum& table : tables_) {
    table.keys.clear();
    table.sums.clear();
    table.occurrences.clear();
    table.slots.clear();
    table.at.clear();
  }
  bool any_dense = false;
  for (const Contribution* contribution : contributions) {
    rows_.clear();
    const float* dense = nullptr;
    contribution->GradientsOf(partition, &rows_, &dense);
    for (const RowGradients& rows : rows_) Add(rows);
    if (dense == nullptr) continue;
    const uint64_t floats = schema_.layout.FloatsOf(partition);
    if (!any_dense) {
      dense_.assign(dense, dense + floats);
      any_dense = true;
    } else {
      for (uint64_t i = 0; i < floats; ++i) dense_[i] += dense[i];
    }
  }
  folded_.rows.clear();
  for (uint32_t t = 0; t < tables_.size(); ++t) {
    if (tables_[t].keys.empty()) continue;
    folded_.rows.push_back({t, tables_[t].keys, tables_[t].sums.data(), tables_[t].occurrences, tables_[t].slots});
  }
  folded_.dense = any_dense ? dense_.data() : nullptr;
  return folded_;
}

}  // namespace shoal
