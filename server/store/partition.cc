#include "server/store/partition.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace shoal {

Partition::Partition(const JobSchema& schema, uint32_t id, absl::Span<const std::unique_ptr<SlabPool>> pools,
                     StoreStats* stats)
    : schema_(schema), id_(id), stats_(stats), dense_(schema, id, stats) {
  for (uint32_t table = 0; table < schema.tables.size(); ++table) {
    tables_.push_back(std::make_unique<SparseTable>(schema, table, pools[table].get(), stats));
  }
}

RequestOutcome Partition::Open(uint64_t split, uint64_t lease, uint64_t* watermark) {
  MutexLock lock(&mu_);
  if (closed_) return RequestOutcome::kStaleMap;
  if (done_.Contains(split)) {
    *watermark = kSplitDone;
    return RequestOutcome::kOk;
  }
  OpenState& state = open_[split];
  if (lease < state.lease) return RequestOutcome::kFenced;
  if (lease > state.lease) ++version_;
  state.lease = lease;
  *watermark = state.watermark;
  return RequestOutcome::kOk;
}

void Partition::Close() {
  MutexLock lock(&mu_);
  closed_ = true;
}

void Partition::Reopen() {
  MutexLock lock(&mu_);
  closed_ = false;
}

uint64_t Partition::Mirror(bool mirrored) {
  MutexLock lock(&mu_);
  mirrored_ = mirrored;
  return version_;
}

void Partition::ReadDense(uint64_t begin, uint64_t count, float* out) const {
  MutexLock lock(&mu_);
  dense_.Read(begin, count, out);
}

void Partition::ReadDense(absl::Span<float* const> tensors) const {
  MutexLock lock(&mu_);
  dense_.ReadInto(tensors);
}

void Partition::MoveDense(const std::shared_ptr<SharedTensors>& shared) {
  MutexLock lock(&mu_);
  dense_.MoveTo(shared);
}

PushVerdict Partition::JudgeLocked(const PushRange& range) const {
  PushVerdict verdict;
  const auto it = open_.find(range.split);
  const OpenState state = it == open_.end() ? OpenState() : it->second;
  const bool done = done_.Contains(range.split);
  const uint64_t w = done ? kSplitDone : state.watermark;
  verdict.watermark = w;
  if (closed_) {
    verdict.outcome = PushOutcome::kStaleMap;
    verdict.watermark = 0;
  } else if (range.lease < state.lease) {
    verdict.outcome = PushOutcome::kFenced;
  } else if (done || (range.end <= w && range.end > range.begin)) {
    verdict.outcome = PushOutcome::kDuplicate;
  } else if (range.begin == w) {
    verdict.outcome = PushOutcome::kAccepted;
    verdict.watermark = range.end;
  } else if (range.begin < w && w < range.end) {
    verdict.outcome = PushOutcome::kMisaligned;
  } else if (range.begin < w && !range.end_of_split) {
    verdict.outcome = PushOutcome::kDuplicate;  // empty, behind the watermark: nothing to say
  } else {
    // Beyond the watermark; or an empty push that says the split ends before records that are applied.
    verdict.outcome = PushOutcome::kOutOfOrder;
  }
  return verdict;
}

PushVerdict Partition::Judge(const PushRange& range) const {
  MutexLock lock(&mu_);
  return JudgeLocked(range);
}

void Partition::Advance(const PushRange& range) {
  ++version_;
  if (range.end_of_split) {
    done_.Add(range.split);
    open_.erase(range.split);
    return;
  }
  OpenState& state = open_[range.split];
  state.lease = std::max(state.lease, range.lease);
  state.watermark = range.end;
}

uint64_t Partition::GrowthBytes(const PushRange& range, const PartitionGradients& gradients) const {
  MutexLock lock(&mu_);
  if (range.examples == 0 || JudgeLocked(range).outcome != PushOutcome::kAccepted) return 0;
  uint64_t bytes = 0;
  for (const RowGradients& rows : gradients.rows) bytes += tables_[rows.table]->GrowthBytes(rows, examples_);
  return bytes;
}

uint64_t Partition::NewBytes(const PushRange& range, const PartitionGradients& gradients) const {
  MutexLock lock(&mu_);
  if (range.examples == 0 || JudgeLocked(range).outcome != PushOutcome::kAccepted) return 0;
  uint64_t bytes = 0;
  for (const RowGradients& rows : gradients.rows) bytes += tables_[rows.table]->NewBytes(rows, examples_);
  return bytes;
}

Partition::Space Partition::RowSpace() const {
  MutexLock lock(&mu_);
  Space space;
  for (const auto& table : tables_) {
    space.used += table->bytes();
    space.need += table->NeedBytes();
  }
  return space;
}

uint64_t Partition::version() const {
  MutexLock lock(&mu_);
  return version_;
}

PartitionDone Partition::Done() const {
  MutexLock lock(&mu_);
  return DoneLocked();
}

PartitionDone Partition::DoneLocked() const {
  PartitionDone out;
  out.set_partition(id_);
  out.set_prefix(done_.prefix());
  for (uint64_t number : done_.extra()) out.add_extra(number);
  out.set_examples(examples_);
  for (const auto& [split, state] : open_) {
    OpenSplitState* open = out.add_open();
    open->set_split(split);
    open->set_watermark(state.watermark);
    open->set_lease(state.lease);
  }
  std::sort(out.mutable_open()->begin(), out.mutable_open()->end(),
            [](const OpenSplitState& a, const OpenSplitState& b) { return a.split() < b.split(); });
  return out;
}

uint64_t Partition::BytesLocked() const {
  uint64_t bytes = dense_.bytes();
  for (const auto& table : tables_) bytes += table->bytes();
  return bytes;
}

PartitionLoad Partition::Usage() const {
  // A push or the copy for a checkpoint may hold the lock for long; a heartbeat must not wait for it.
  if (mu_.TryLock()) {
    usage_bytes_ = BytesLocked();
    usage_pushes_ = pushes_;
    mu_.Unlock();
  }
  PartitionLoad out;
  out.set_partition(id_);
  out.set_bytes(usage_bytes_);
  out.set_pushes(usage_pushes_);
  return out;
}

}  // namespace shoal
