#include "worker/data/decoded_split.h"

#include <algorithm>
#include <utility>

#include "base/status_macros.h"

namespace shoal {
namespace {

constexpr uint64_t kRecordsAtOnce = 4096;
constexpr uint64_t kAhead = 4;  // records fetched before they are copied

template <typename T>
uint64_t BytesOf(const std::vector<T>& values) {
  return values.capacity() * sizeof(T);
}

}  // namespace

uint64_t DecodedSplit::bytes() const {
  return sizeof(*this) + BytesOf(row_of_) + BytesOf(bad_) + BytesOf(keys_) + BytesOf(key_begin_) + BytesOf(counts_) +
         BytesOf(weights_) + BytesOf(dense_) + BytesOf(labels_) + BytesOf(label_ids_) + BytesOf(label_begin_);
}

absl::StatusOr<std::shared_ptr<const DecodedSplit>> DecodedSplit::Read(SplitReader* reader, bool multi_label,
                                                                       uint64_t max_bytes) {
  std::shared_ptr<DecodedSplit> split(new DecodedSplit());
  split->multi_label_ = multi_label;
  split->key_begin_ = {0};
  split->label_begin_ = {0};
  Batch batch;
  do {
    SHOAL_RETURN_IF_ERROR(reader->Next(kRecordsAtOnce, &batch));
    split->Add(batch);
    if (split->bytes() / 2 > max_bytes || split->row_of_.size() >= kBad) return nullptr;
  } while (!batch.end_of_split);
  DecodedSplit& s = *split;
  s.row_of_.shrink_to_fit();
  s.keys_.shrink_to_fit();
  s.key_begin_.shrink_to_fit();
  s.counts_.shrink_to_fit();
  s.weights_.shrink_to_fit();
  s.dense_.shrink_to_fit();
  s.labels_.shrink_to_fit();
  s.label_ids_.shrink_to_fit();
  s.label_begin_.shrink_to_fit();
  if (split->bytes() > max_bytes) return nullptr;
  return std::shared_ptr<const DecodedSplit>(std::move(split));
}

void DecodedSplit::Add(const Batch& batch) {
  slots_ = batch.slots.size();
  dense_dim_ = batch.dense_dim;
  uint32_t row = static_cast<uint32_t>(key_begin_.size() - 1);
  size_t good = 0, bad = bad_.size();
  for (uint64_t record = batch.begin; record < batch.end; ++record) {
    if (good < batch.records.size() && batch.records[good] == record) {
      row_of_.push_back(row++);
      ++good;
    } else {
      row_of_.push_back(kBad | static_cast<uint32_t>(bad++));
    }
  }
  bad_.insert(bad_.end(), batch.bad.begin(), batch.bad.end());
  AddKeys(batch);
  dense_.insert(dense_.end(), batch.dense.begin(), batch.dense.end());
  labels_.insert(labels_.end(), batch.labels.begin(), batch.labels.end());
  if (!multi_label_) return;
  const uint64_t before = label_begin_.back();
  for (uint32_t r = 0; r < batch.rows; ++r) label_begin_.push_back(before + batch.label_offsets[r + 1]);
  label_ids_.insert(label_ids_.end(), batch.label_ids.begin(), batch.label_ids.end());
}

void DecodedSplit::AddKeys(const Batch& batch) {
  bool weighted = !weights_.empty(), counted = !counts_.empty();
  for (const SlotColumn& slot : batch.slots) {
    weighted |= !slot.weights.empty();
    for (uint32_t r = 0; r < batch.rows && !counted; ++r) counted = slot.offsets[r + 1] - slot.offsets[r] != 1;
  }
  // The first to be unlike 1: those before it are written down.
  if (weighted) weights_.resize(keys_.size(), 1.0f);
  if (counted) counts_.resize((key_begin_.size() - 1) * slots_, 1);
  for (uint32_t r = 0; r < batch.rows; ++r) {
    for (const SlotColumn& slot : batch.slots) {
      const uint32_t begin = slot.offsets[r], end = slot.offsets[r + 1];
      keys_.insert(keys_.end(), slot.keys.begin() + begin, slot.keys.begin() + end);
      if (counted) counts_.push_back(end - begin);
      if (!weighted) continue;
      if (slot.weights.empty()) {
        weights_.resize(keys_.size(), 1.0f);
      } else {
        weights_.insert(weights_.end(), slot.weights.begin() + begin, slot.weights.begin() + end);
      }
    }
    key_begin_.push_back(keys_.size());
  }
}

void DecodedSplit::Prefetch(uint64_t index) const {
  constexpr uint64_t kBytes = 512;  // longer rows are fetched by the hardware once it sees where they go
  const uint32_t row = row_of_[index];
  if ((row & kBad) != 0) return;
  const char* const keys = reinterpret_cast<const char*>(keys_.data() + key_begin_[row]);
  const uint64_t bytes = (key_begin_[row + 1] - key_begin_[row]) * sizeof(uint64_t);
  for (uint64_t at = 0; at < std::min(bytes, kBytes); at += 64) __builtin_prefetch(keys + at);
}

void DecodedSplit::Append(uint64_t index, uint64_t number, Batch* batch) const {
  const uint32_t row = row_of_[index];
  if ((row & kBad) != 0) {
    batch->bad.push_back(bad_[row & ~kBad]);
    return;
  }
  const uint64_t* key = keys_.data() + key_begin_[row];
  const float* weight = weights_.empty() ? nullptr : weights_.data() + key_begin_[row];
  for (size_t s = 0; s < slots_; ++s) {
    SlotColumn& slot = batch->slots[s];
    const size_t count = counts_.empty() ? 1 : counts_[row * slots_ + s];
    if (count == 1) {
      slot.keys.push_back(*key);
    } else {
      slot.keys.insert(slot.keys.end(), key, key + count);
    }
    key += count;
    if (weight != nullptr) {
      slot.weights.insert(slot.weights.end(), weight, weight + count);
      weight += count;
    }
    slot.offsets.push_back(static_cast<uint32_t>(slot.keys.size()));
  }
  const float* const dense = dense_.data() + row * dense_dim_;
  batch->dense.insert(batch->dense.end(), dense, dense + dense_dim_);
  if (multi_label_) {
    batch->label_ids.insert(batch->label_ids.end(), label_ids_.begin() + static_cast<ptrdiff_t>(label_begin_[row]),
                            label_ids_.begin() + static_cast<ptrdiff_t>(label_begin_[row + 1]));
    batch->label_offsets.push_back(static_cast<uint32_t>(batch->label_ids.size()));
  } else {
    batch->labels.push_back(labels_[row]);
  }
  batch->records.push_back(number);
  ++batch->rows;
}

absl::Status DecodedSplitReader::Next(uint64_t max_records, Batch* batch) {
  StartBatch(schema_, options_, next_, batch);
  const uint64_t records = split_->records();
  const uint64_t stop = max_records < records - next_ ? next_ + max_records : records;
  const uint64_t block = options_.block_records;
  for (; next_ < stop; ++next_) {
    if (block == 0) {
      split_->Append(next_, next_, batch);
      continue;
    }
    if (order_.empty() || next_ >= block_begin_ + order_.size()) {
      block_begin_ = next_ / block * block;
      order_ = BlockOrder(options_, block_begin_, std::min(block, records - block_begin_));
    }
    const uint64_t place = next_ - block_begin_;
    if (place + kAhead < order_.size()) split_->Prefetch(block_begin_ + order_[place + kAhead]);
    split_->Append(block_begin_ + order_[place], next_, batch);
  }
  batch->end = next_;
  batch->end_of_split = next_ == records;
  DropUnitWeights(batch);
  return absl::OkStatus();
}

}  // namespace shoal
