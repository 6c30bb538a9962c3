// The columnar form of a batch: what readers produce and models consume.
#ifndef SHOAL_WORKER_DATA_BATCH_H_
#define SHOAL_WORKER_DATA_BATCH_H_

#include <cstdint>
#include <string>
#include <vector>

namespace shoal {

// One slot of a batch: for row r the keys are keys[offsets[r] .. offsets[r+1]).
struct SlotColumn {
  std::vector<uint32_t> offsets;  // rows + 1 entries, offsets[0] == 0
  std::vector<uint64_t> keys;     // hashes of (slot, token)
  std::vector<float> weights;     // one per key, or empty when all are 1
};

// A record that could not be parsed: it keeps its number and contributes nothing.
struct BadRecord {
  std::string file;
  uint64_t offset = 0;  // byte offset of its first byte in the decompressed file
  std::string message;  // names file, line, offset, field, value and what would have been right
};

// Records [begin, end) of one split. `rows` counts the good ones among them; all columns have `rows` rows.
// Reused between batches: Clear() keeps the capacity.
struct Batch {
  uint64_t pass = 0;
  uint64_t split = 0;  // position in the pass's order
  uint64_t begin = 0;  // record numbers in the split, after shuffling
  uint64_t end = 0;
  bool end_of_split = false;  // no record follows

  uint32_t rows = 0;
  std::vector<uint64_t> records;  // rows entries: record number in the split (the coordinate of dropout)
  uint32_t dense_dim = 0;
  std::vector<float> dense;       // rows * dense_dim, row-major
  std::vector<SlotColumn> slots;  // in schema order

  // NUMBER: rows labels. CLASS: rows class indices as floats. MULTI_LABEL: label_offsets/label_ids instead.
  std::vector<float> labels;
  std::vector<uint32_t> label_offsets;  // rows + 1 entries
  std::vector<uint32_t> label_ids;

  std::vector<std::string> ids;  // rows entries when ids were asked for, else empty
  std::vector<BadRecord> bad;    // records of [begin, end) that are not among the rows

  void Clear() {
    pass = split = begin = end = 0;
    end_of_split = false;
    rows = 0;
    records.clear();
    dense.clear();
    for (SlotColumn& slot : slots) {
      slot.offsets.assign(1, 0);
      slot.keys.clear();
      slot.weights.clear();
    }
    labels.clear();
    label_offsets.assign(1, 0);
    label_ids.clear();
    ids.clear();
    bad.clear();
  }
};

}  // namespace shoal

#endif  // SHOAL_WORKER_DATA_BATCH_H_
