#include "server/refused_log.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

namespace shoal {
namespace {

// By (dense, table or tensor, slot): rows or blocks.
using RefusedCounts = std::map<std::tuple<bool, uint32_t, uint32_t>, uint64_t>;

void AddRows(bool dense, uint32_t table, uint32_t slot, uint64_t rows, RefusedBatch* batch) {
  RefusedRows* const out = batch->add_rows();
  out->set_dense(dense);
  out->set_table_index(table);
  out->set_slot_index(slot);
  out->set_rows(rows);
}

// As the store judges: a NaN counts as too large.
bool TooLarge(const JobSchema& schema, const float* sums, uint64_t size, float divisor) {
  for (uint64_t i = 0; i < size; ++i) {
    if (!(std::abs(sums[i] / divisor) <= schema.max_abs)) return true;
  }
  return false;
}

void CountOwn(const JobSchema& schema, const Contribution& contribution, uint32_t partition, float divisor,
              RefusedCounts* counts) {
  std::pmr::vector<RowGradients> groups;
  const DenseGradients dense = contribution.GradientsOf(partition, &groups);
  for (const RowGradients& rows : groups) {
    const uint64_t dim = schema.tables[rows.table].dim;
    for (uint64_t i = 0; i < rows.keys.size(); ++i) {
      if (TooLarge(schema, rows.sums + i * dim, dim, divisor)) ++(*counts)[{false, rows.table, rows.SlotOf(i)}];
    }
  }
  if (dense.none()) return;
  dense.ForEach(schema.layout.BlocksOf(partition), [&](const DenseBlock& block, const float* values) {
    if (TooLarge(schema, values, block.size, divisor)) ++(*counts)[{true, block.tensor, 0}];
  });
}

RefusedBatch BatchOf(const JobSchema& schema, const Contribution& contribution) {
  const PushRange& range = contribution.range();
  RefusedBatch batch;
  batch.set_lane(contribution.lane());
  batch.set_pass(range.split / schema.splits);
  batch.set_split(range.split % schema.splits);
  batch.set_begin(range.begin);
  batch.set_end(range.end);
  return batch;
}

}  // namespace

void RefusedLog::Add(RefusedBatch batch) {
  MutexLock lock(&mu_);
  batch.set_number(++count_);
  newest_.push_back(std::move(batch));
  if (newest_.size() > kKept) newest_.pop_front();
}

void RefusedLog::Fill(ServerJobReport* report) const {
  MutexLock lock(&mu_);
  report->set_refused_batches(count_);
  for (const RefusedBatch& batch : newest_) *report->add_refused() = batch;
}

bool TakeRefused(const PushTally& tally, RefusedBatch* batch) {
  tally.ForEach([&](uint32_t table, uint32_t slot, const SlotCounts& counts) {
    if (counts.guard_refused != 0) AddRows(false, table, slot, counts.guard_refused, batch);
  });
  for (const PushTally::DenseRefused& dense : tally.dense_refused())
    AddRows(true, dense.tensor, 0, dense.blocks, batch);
  return batch->rows_size() > 0;
}

std::vector<RefusedBatch> BlameLanes(const JobSchema& schema, const Rounds& rounds,
                                     absl::Span<const uint32_t> partitions, uint64_t examples, const PushTally& tally) {
  std::vector<RefusedBatch> out;
  RefusedBatch whole;
  if (!TakeRefused(tally, &whole)) return out;
  const float divisor = schema.mean ? static_cast<float>(examples) : 1.0f;
  const std::vector<const Contribution*> lanes = rounds.Next();
  std::vector<RefusedCounts> own(lanes.size());
  std::vector<const Contribution*> covering;
  for (uint32_t partition : partitions) {
    // A lane that takes part covers every partition, so that the order of lanes is the same everywhere.
    rounds.NextFor(partition, &covering);
    for (size_t i = 0; i < std::min(covering.size(), lanes.size()); ++i) {
      CountOwn(schema, *covering[i], partition, divisor, &own[i]);
    }
  }
  for (size_t i = 0; i < lanes.size(); ++i) {
    if (own[i].empty()) continue;
    out.push_back(BatchOf(schema, *lanes[i]));
    for (const auto& [where, rows] : own[i]) {
      AddRows(std::get<0>(where), std::get<1>(where), std::get<2>(where), rows, &out.back());
    }
  }
  if (!out.empty()) return out;
  for (const Contribution* contribution : lanes) {
    out.push_back(BatchOf(schema, *contribution));
    *out.back().mutable_rows() = whole.rows();
    out.back().set_round(true);
  }
  return out;
}

}  // namespace shoal
