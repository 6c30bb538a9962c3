// Reads one split of any format: blocks of records, shuffled, parsed into batches.
#ifndef SHOAL_WORKER_DATA_SPLIT_READER_H_
#define SHOAL_WORKER_DATA_SPLIT_READER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "worker/data/data_set.h"
#include "worker/data/format.h"

namespace shoal {

struct SplitReaderOptions {
  uint64_t seed = 1;
  uint64_t pass = 0;
  uint64_t position = 0;       // of the split in the pass's order
  uint64_t block_records = 0;  // records are permuted in blocks of so many; 0: file order
  bool binary_labels = false;  // a label outside [0, 1] is a bad record
  bool want_ids = false;
  uint64_t first_row = 0;  // number in the input of the split's first record: ids where the format has none
};

// What belongs to one file and outlives its readers. Thread-safe.
struct ReaderContext {
  std::shared_ptr<const RecordFormat> format;
  std::shared_ptr<const FileContent> content;  // null: synthetic
  std::string path;
  FeatureSchema schema;
};

// order[i] is the index, in file order inside the block, of record block_begin + i of the pass. REQUIRES: block_records
// > 0.
std::vector<uint32_t> BlockOrder(const SplitReaderOptions& options, uint64_t block_begin, uint64_t count);

// Empties *batch and sets up its columns for records from `begin` on.
void StartBatch(const FeatureSchema& schema, const SplitReaderOptions& options, uint64_t begin, Batch* batch);
// Slots whose weights are all 1 have none.
void DropUnitWeights(Batch* batch);

// Holds one block of raw records in memory at a time. Not thread-safe; owned by one lane.
class BlockSplitReader : public SplitReader {
 public:
  BlockSplitReader(ReaderContext context, const SplitReaderOptions& options, std::unique_ptr<RecordSource> source,
                   std::unique_ptr<RecordParser> parser);

  // Makes `record` the next one; INVALID_ARGUMENT when the split has fewer.
  absl::Status SkipTo(uint64_t record);
  absl::Status Next(uint64_t max_records, Batch* batch) override;

 private:
  struct Entry {
    uint64_t offset = 0;
    size_t begin = 0;  // in text_
    size_t size = 0;
    bool overlong = false;
  };

  // Replaces the block by the next one; an empty one at the end of the split.
  absl::Status LoadBlock();
  // Parses entry `index` of the block (in file order) as record `number` of the split.
  // Of the row that was parsed last.
  bool CheckLabel(const Batch& batch);
  absl::Status AddRecord(uint64_t index, uint64_t number, Batch* batch);
  absl::Status AddBad(const Entry& entry, Batch* batch);
  // Fetches the record at place `i` of the block's order into the cache.
  void Prefetch(uint64_t i) const;
  void CommitRow(uint64_t index, uint64_t number, Batch* batch);
  void RollBackRow(Batch* batch);
  uint64_t block_end() const { return block_begin_ + entries_.size(); }

  const ReaderContext context_;
  const SplitReaderOptions options_;
  const std::unique_ptr<RecordSource> source_;
  const std::unique_ptr<RecordParser> parser_;

  uint64_t next_ = 0;            // number of the next record
  uint64_t block_begin_ = 0;     // number of the block's first record
  std::vector<Entry> entries_;   // the block, in file order
  std::string text_;             // its bytes
  std::vector<uint32_t> order_;  // order_[i]: index in entries_ of record block_begin_ + i; empty: file order
  Problem problem_;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_DATA_SPLIT_READER_H_
