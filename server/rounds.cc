#include "server/rounds.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "server/request_checks.h"

namespace shoal {

Contribution::Contribution(const JobSchema& schema, const PushRequest& request, std::pmr::memory_resource* memory)
    : schema_(schema),
      range_(RangeOf(schema, request)),
      lane_(request.header.lane),
      partitions_(request.partitions.begin(), request.partitions.end(), memory),
      dense_(memory),
      dense_starts_(memory) {
  for (const PushGroup& from : request.groups) {
    Group group(memory);
    group.keys.assign(from.keys.begin(), from.keys.end());
    group.starts.reserve(from.counts.size() + 1);
    group.starts.push_back(0);
    for (uint32_t count : from.counts) group.starts.push_back(group.starts.back() + count);
    group.tables.assign(from.tables.begin(), from.tables.end());
    for (size_t t = 0; t < from.tables.size(); ++t) {
      const float* values = from.gradients[t];
      group.gradients.emplace_back(values, values + from.keys.size() * schema.tables[from.tables[t]].dim, memory);
    }
    group.occurrences.assign(from.occurrences.begin(), from.occurrences.end());
    group.slots.assign(from.slots.begin(), from.slots.end());
    group.slot = from.slot;
    groups_.push_back(std::move(group));
  }
  dense_starts_.reserve(partitions_.size());
  uint64_t floats = 0;
  for (uint32_t partition : partitions_) {
    dense_starts_.push_back(floats);
    floats += schema.layout.FloatsOf(partition);
  }
  if (request.tensors.empty()) {
    dense_.assign(request.dense.begin(), request.dense.end());
    return;
  }
  dense_.reserve(floats);
  const DenseGradients dense = DenseGradients::InTensors(request.tensors);
  for (uint32_t partition : partitions_) {
    dense.ForEach(schema.layout.BlocksOf(partition), [this](const DenseBlock& block, const float* values) {
      dense_.insert(dense_.end(), values, values + block.size);
    });
  }
}

Contribution::Contribution(const JobSchema& schema, uint32_t partition, const HeldLane& held)
    : schema_(schema),
      range_{held.split(), held.lease(), held.begin(), held.end(), held.end_of_split(), held.examples()},
      lane_(held.lane()),
      partitions_{partition},
      dense_(held.dense().begin(), held.dense().end()),
      dense_starts_{0} {
  for (const HeldRows& rows : held.rows()) {
    Group group(std::pmr::get_default_resource());
    group.keys.assign(rows.keys().begin(), rows.keys().end());
    group.starts = {0, group.keys.size()};
    group.tables = {rows.table()};
    group.gradients.emplace_back(rows.sums().begin(), rows.sums().end());
    group.occurrences.assign(rows.occurrences().begin(), rows.occurrences().end());
    for (uint32_t slot : rows.slots()) group.slots.push_back(static_cast<uint16_t>(slot));
    group.slot = static_cast<uint16_t>(rows.slot());
    groups_.push_back(std::move(group));
  }
}

uint64_t Contribution::floats() const {
  uint64_t floats = dense_.size();
  for (const Group& group : groups_) {
    for (const std::pmr::vector<float>& gradients : group.gradients) floats += gradients.size();
  }
  return floats;
}

bool Contribution::Covers(uint32_t partition) const {
  return std::binary_search(partitions_.begin(), partitions_.end(), partition);
}

void Contribution::WriteTo(uint32_t partition, HeldLane* out) const {
  out->set_held(true);
  out->set_split(range_.split);
  out->set_lease(range_.lease);
  out->set_begin(range_.begin);
  out->set_end(range_.end);
  out->set_end_of_split(range_.end_of_split);
  out->set_examples(range_.examples);
  out->set_lane(lane_);
  std::pmr::vector<RowGradients> gradients;
  const DenseGradients dense = GradientsOf(partition, &gradients);
  for (const RowGradients& from : gradients) {
    HeldRows* rows = out->add_rows();
    rows->set_table(from.table);
    const uint64_t floats = from.keys.size() * schema_.tables[from.table].dim;
    rows->mutable_keys()->Add(from.keys.begin(), from.keys.end());
    rows->mutable_sums()->Add(from.sums, from.sums + floats);
    rows->mutable_occurrences()->Add(from.occurrences.begin(), from.occurrences.end());
    rows->mutable_slots()->Add(from.slots.begin(), from.slots.end());
    rows->set_slot(from.slot);
  }
  if (dense.none()) return;
  out->set_has_dense(true);
  dense.ForEach(schema_.layout.BlocksOf(partition), [out](const DenseBlock& block, const float* values) {
    out->mutable_dense()->Add(values, values + block.size);
  });
}

absl::Status CheckHeld(const JobSchema& schema, uint32_t partition, const HeldRounds& held) {
  if (static_cast<uint32_t>(held.lanes_size()) != schema.lanes) {
    return absl::InvalidArgumentError(
        absl::StrCat("held.lanes: ", held.lanes_size(), " entries, must be the job's lanes, ", schema.lanes));
  }
  for (int l = 0; l < held.lanes_size(); ++l) {
    const HeldLane& lane = held.lanes(l);
    const uint64_t floats = lane.has_dense() ? schema.layout.FloatsOf(partition) : 0;
    if (static_cast<uint64_t>(lane.dense_size()) != floats) {
      return absl::InvalidArgumentError(
          absl::StrCat("held.lanes[", l, "].dense: ", lane.dense_size(), " floats, must be ", floats));
    }
    for (const HeldRows& rows : lane.rows()) {
      const bool known = rows.table() < schema.tables.size();
      const uint64_t keys = static_cast<uint64_t>(rows.keys_size());
      const uint64_t sums = known ? keys * schema.tables[rows.table()].dim : 0;
      const uint64_t occurrences = static_cast<uint64_t>(rows.occurrences_size());
      const uint64_t slots = static_cast<uint64_t>(rows.slots_size());
      const bool fits = static_cast<uint64_t>(rows.sums_size()) == sums && (occurrences == 0 || occurrences == keys) &&
                        (slots == 0 || slots == keys) && rows.slot() < schema.slot_count() &&
                        std::all_of(rows.slots().begin(), rows.slots().end(),
                                    [&](uint32_t slot) { return slot < schema.slot_count(); });
      if (known && fits) continue;
      return absl::InvalidArgumentError(absl::StrCat("held.lanes[", l, "].rows: table ", rows.table(), " with ", keys,
                                                     " keys, ", rows.sums_size(), " sums, ", occurrences,
                                                     " occurrences and ", slots, " slots does not fit the job"));
    }
  }
  return absl::OkStatus();
}

DenseGradients Contribution::GradientsOf(uint32_t partition, std::pmr::vector<RowGradients>* rows) const {
  const auto it = std::lower_bound(partitions_.begin(), partitions_.end(), partition);
  if (it == partitions_.end() || *it != partition) return {};
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
  if (dense_.empty()) return {};
  return DenseGradients::InARow(dense_.data() + dense_starts_[entry]);
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
    if (lane.held.empty() || !lane.marked) return false;
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
    if (TakesPart(lane)) out.push_back(lane.held.front().get());
  }
  return out;
}

void Rounds::NextFor(uint32_t partition, std::vector<const Contribution*>* out) const {
  out->clear();
  for (const Lane& lane : lanes_) {
    if (!TakesPart(lane)) continue;
    for (const std::unique_ptr<Contribution>& held : lane.held) {
      if (!held->Covers(partition)) continue;
      out->push_back(held.get());
      break;
    }
  }
}

uint64_t Rounds::reserved_bytes() const {
  uint64_t bytes = 0;
  for (const Lane& lane : lanes_) {
    for (const std::unique_ptr<Contribution>& held : lane.held) bytes += held->reserved_bytes();
  }
  return bytes;
}

HeldRounds Rounds::Leave(uint32_t partition) const {
  HeldRounds out;
  out.set_rounds_applied(applied_);
  for (const Lane& lane : lanes_) {
    HeldLane* to = out.add_lanes();
    to->set_marked(lane.marked);
    to->set_finished(lane.rounds.has_value());
    to->set_rounds(lane.rounds.value_or(0));
    for (const std::unique_ptr<Contribution>& held : lane.held) {
      if (!held->Covers(partition)) continue;
      held->WriteTo(partition, to);
      break;
    }
  }
  return out;
}

void Rounds::Arrive(const JobSchema& schema, uint32_t partition, const HeldRounds& held) {
  for (size_t l = 0; l < lanes_.size(); ++l) {
    const HeldLane& from = held.lanes(static_cast<int>(l));
    Lane& lane = lanes_[l];
    if (from.finished()) lane.rounds = from.rounds();
    lane.marked |= from.marked();
    if (from.held()) lane.held.push_back(std::make_unique<Contribution>(schema, partition, from));
  }
}

uint64_t Rounds::Keep(absl::Span<const uint32_t> partitions) {
  uint64_t bytes = 0;
  for (Lane& lane : lanes_) {
    const bool whole =
        !partitions.empty() && std::all_of(partitions.begin(), partitions.end(), [&](uint32_t partition) {
          return std::any_of(lane.held.begin(), lane.held.end(),
                             [&](const std::unique_ptr<Contribution>& held) { return held->Covers(partition); });
        });
    if (whole || lane.held.empty()) continue;
    for (const std::unique_ptr<Contribution>& held : lane.held) bytes += held->reserved_bytes();
    lane.held.clear();
    lane.marked = false;
  }
  return bytes;
}

void Rounds::Advance() {
  ++applied_;
  for (Lane& lane : lanes_) {
    lane.held.clear();
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
    const DenseGradients dense = contribution->GradientsOf(partition, &rows_);
    for (const RowGradients& rows : rows_) Add(rows);
    if (dense.none()) continue;
    if (!any_dense) dense_.clear();
    float* sum = dense_.data();
    dense.ForEach(schema_.layout.BlocksOf(partition), [&](const DenseBlock& block, const float* values) {
      if (!any_dense) {
        dense_.insert(dense_.end(), values, values + block.size);
        return;
      }
      for (uint64_t i = 0; i < block.size; ++i) sum[i] += values[i];
      sum += block.size;
    });
    any_dense = true;
  }
  folded_.rows.clear();
  for (uint32_t t = 0; t < tables_.size(); ++t) {
    if (tables_[t].keys.empty()) continue;
    folded_.rows.push_back({t, tables_[t].keys, tables_[t].sums.data(), tables_[t].occurrences, tables_[t].slots});
  }
  folded_.dense = any_dense ? DenseGradients::InARow(dense_.data()) : DenseGradients();
  return folded_;
}

}  // namespace shoal
