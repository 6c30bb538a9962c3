// The records of one split, decoded and kept in memory: what data.cache: memory serves later passes from.
#ifndef SHOAL_WORKER_DATA_DECODED_SPLIT_H_
#define SHOAL_WORKER_DATA_DECODED_SPLIT_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "worker/data/batch.h"
#include "worker/data/split_reader.h"

namespace shoal {

// Records of a split in file order, bad ones too; a record's values lie together, so that it costs few cache misses in
// whatever order a pass wants it. Immutable after Read: thread-safe.
class DecodedSplit {
 public:
  // Reads the whole split from `reader`, which must be in file order. nullptr when it takes more than max_bytes.
  static absl::StatusOr<std::shared_ptr<const DecodedSplit>> Read(SplitReader* reader, bool multi_label,
                                                                  uint64_t max_bytes);

  uint64_t records() const { return row_of_.size(); }
  uint64_t bytes() const;
  // Fetches record `index` into the cache: a pass visits them in random order.
  void Prefetch(uint64_t index) const;
  // Appends record `index` to a batch whose columns have been set up, as record `number` of the pass's split.
  void Append(uint64_t index, uint64_t number, Batch* batch) const;

 private:
  static constexpr uint32_t kBad = uint32_t{1} << 31;  // row_of_: the rest is an index in bad_

  DecodedSplit() = default;
  void Add(const Batch& batch);
  void AddKeys(const Batch& batch);

  bool multi_label_ = false;
  size_t slots_ = 0;
  size_t dense_dim_ = 0;
  std::vector<uint32_t> row_of_;  // by record
  std::vector<BadRecord> bad_;
  std::vector<uint64_t> keys_;       // row by row, slot by slot
  std::vector<uint64_t> key_begin_;  // by row; one more at the end
  std::vector<uint32_t> counts_;     // keys by row and slot; empty while each has one
  std::vector<float> weights_;       // by key; empty while all are 1
  std::vector<float> dense_;
  std::vector<float> labels_;
  std::vector<uint32_t> label_ids_;
  std::vector<uint64_t> label_begin_;  // by row, one more at the end; multi-label only
};

// Reads a pass over a decoded split: the same batches as BlockSplitReader. Not thread-safe; owned by one lane.
class DecodedSplitReader : public SplitReader {
 public:
  DecodedSplitReader(std::shared_ptr<const DecodedSplit> split, const FeatureSchema& schema,
                     const SplitReaderOptions& options, uint64_t first_record)
      : split_(std::move(split)), schema_(schema), options_(options), next_(first_record) {}

  absl::Status Next(uint64_t max_records, Batch* batch) override;

 private:
  const std::shared_ptr<const DecodedSplit> split_;
  const FeatureSchema schema_;
  const SplitReaderOptions options_;
  uint64_t next_;
  uint64_t block_begin_ = 0;
  std::vector<uint32_t> order_;  // of the block; empty: file order, or not made yet
};

}  // namespace shoal

#endif  // SHOAL_WORKER_DATA_DECODED_SPLIT_H_
