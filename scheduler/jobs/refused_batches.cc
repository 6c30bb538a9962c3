#include "scheduler/jobs/refused_batches.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/random.h"

namespace shoal {
namespace {

constexpr size_t kLanes = 4096;
// Up to here every batch has a line in the log, afterwards those whose number is a power of two.
constexpr uint64_t kLoggedAll = 8;

bool SameBatch(const RefusedBatch& a, const RefusedBatch& b) {
  return a.pass() == b.pass() && a.split() == b.split() && a.begin() == b.begin() && a.end() == b.end();
}

bool SamePlace(const RefusedRows& a, const RefusedRows& b) {
  return a.dense() == b.dense() && a.table_index() == b.table_index() && a.slot_index() == b.slot_index();
}

}  // namespace

std::string TableName(const JobPlan& plan, uint32_t table) {
  const auto& tables = plan.model().tables();
  return table < static_cast<uint32_t>(tables.size()) ? tables[static_cast<int>(table)].name() : absl::StrCat(table);
}

std::string TensorName(const JobPlan& plan, uint32_t tensor) {
  const auto& tensors = plan.model().tensors();
  if (tensor >= static_cast<uint32_t>(tensors.size())) return absl::StrCat(tensor);
  return tensors[static_cast<int>(tensor)].name();
}

std::string SlotName(const JobPlan& plan, uint32_t slot) {
  const auto& slots = plan.schema().slots();
  return slot < static_cast<uint32_t>(slots.size()) ? slots[static_cast<int>(slot)] : absl::StrCat(slot);
}

void RefusedBatches::NameLane(uint64_t lane, const std::string& worker) {
  workers_[lane] = worker;
  if (workers_.size() > kLanes) workers_.erase(workers_.begin());
}

void RefusedBatches::Locate(RefusedBatch* batch) {
  const auto worker = workers_.find(batch->lane());
  if (worker != workers_.end()) batch->set_worker(worker->second);
  for (RefusedRows& rows : *batch->mutable_rows()) {
    rows.set_table(rows.dense() ? TensorName(plan_, rows.table_index()) : TableName(plan_, rows.table_index()));
    if (!rows.dense()) rows.set_slot(SlotName(plan_, rows.slot_index()));
  }
  const auto& splits = plan_.train().splits();
  if (batch->split() >= static_cast<uint64_t>(splits.size())) return;
  if (order_pass_ != batch->pass()) {
    order_ = SplitOrder(seed_, batch->pass(), static_cast<uint64_t>(splits.size()));
    order_pass_ = batch->pass();
  }
  const Split& split = splits[static_cast<int>(order_[batch->split()])];
  batch->set_file_begin(split.begin());
  batch->set_file_end(split.end());
  if (split.file() < static_cast<uint32_t>(plan_.train().files_size())) {
    batch->set_file(plan_.train().files(static_cast<int>(split.file())).path());
  }
}

bool RefusedBatches::Merge(const RefusedBatch& batch) {
  const auto same = std::find_if(newest_.begin(), newest_.end(), [&](const auto& b) { return SameBatch(b, batch); });
  if (same == newest_.end()) {
    newest_.push_back(batch);
    if (newest_.size() > kKept) newest_.pop_front();
    return false;
  }
  for (const RefusedRows& rows : batch.rows()) {
    auto& have = *same->mutable_rows();
    const auto it = std::find_if(have.begin(), have.end(), [&](const auto& r) { return SamePlace(r, rows); });
    if (it == have.end()) {
      *have.Add() = rows;
    } else {
      it->set_rows(it->rows() + rows.rows());
    }
  }
  // One server knows the lane to blame where another knows only the round.
  if (!batch.round()) same->set_round(false);
  return true;
}

std::vector<std::string> RefusedBatches::Take(uint64_t server, const ServerJobReport& report) {
  std::vector<std::string> lines;
  count_ = std::max(count_, report.refused_batches());
  uint64_t& taken = taken_[server];
  for (const RefusedBatch& reported : report.refused()) {
    if (reported.number() <= taken) continue;
    taken = reported.number();
    RefusedBatch batch = reported;
    Locate(&batch);
    if (Merge(batch)) continue;
    ++logged_;
    if (logged_ <= kLoggedAll || (logged_ & (logged_ - 1)) == 0) lines.push_back(RefusedText(batch));
  }
  return lines;
}

void RefusedBatches::Fill(JobStatus* status) const {
  status->set_refused_batches(count_);
  for (const RefusedBatch& batch : newest_) *status->add_refused() = batch;
}

void RefusedBatches::Save(StoredProgress* progress) const {
  for (const RefusedBatch& batch : newest_) *progress->add_refused() = batch;
  progress->set_refused_batches(count_);
  progress->set_refused_looked_at(logged_);
  for (const auto& [server, number] : taken_) (*progress->mutable_refused_taken())[server] = number;
}

void RefusedBatches::Load(const StoredProgress& progress) {
  newest_.assign(progress.refused().begin(), progress.refused().end());
  count_ = progress.refused_batches();
  logged_ = progress.refused_looked_at();
  taken_.clear();
  for (const auto& [server, number] : progress.refused_taken()) taken_[server] = number;
}

std::string RefusedText(const RefusedBatch& batch) {
  std::string text =
      absl::StrCat("guard refused ", batch.round() ? "part of the round with " : "",
                   batch.worker().empty() ? absl::StrCat("lane ", batch.lane()) : batch.worker(), "'s batch of pass ",
                   batch.pass(), " split ", batch.split(), " records [", batch.begin(), ", ", batch.end(), ")");
  if (!batch.file().empty()) {
    absl::StrAppend(&text, " of ", batch.file(), " bytes [", batch.file_begin(), ", ", batch.file_end(), ")");
  }
  const char* separator = ": ";
  for (const RefusedRows& rows : batch.rows()) {
    absl::StrAppend(&text, separator, rows.table());
    if (!rows.slot().empty()) absl::StrAppend(&text, "/", rows.slot());
    absl::StrAppend(&text, " ", rows.rows(), rows.dense() ? " blocks" : " rows");
    separator = ", ";
  }
  return text;
}

}  // namespace shoal
