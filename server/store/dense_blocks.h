// The dense blocks of one partition.
#ifndef SHOAL_SERVER_STORE_DENSE_BLOCKS_H_
#define SHOAL_SERVER_STORE_DENSE_BLOCKS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "server/checkpoint/part_format.h"
#include "server/store/dense_gradients.h"
#include "server/store/job_schema.h"
#include "server/store/shared_tensors.h"
#include "server/store/sparse_table.h"
#include "server/store/store_stats.h"

namespace shoal {

// Weights and optimizer state of each block, in DenseLayout order. Not thread-safe: the partition's lock guards it.
class DenseBlocks {
 public:
  // `schema` and `stats` must outlive it.
  DenseBlocks(const JobSchema& schema, uint32_t partition, StoreStats* stats);
  ~DenseBlocks();
  DenseBlocks(const DenseBlocks&) = delete;
  DenseBlocks& operator=(const DenseBlocks&) = delete;

  uint64_t floats() const { return floats_; }  // weights of all blocks
  uint64_t bytes() const { return bytes_; }    // weights and state
  // Floats [begin, begin + count) of all blocks, one after the other. REQUIRES: there are as many.
  void Read(uint64_t begin, uint64_t count, float* out) const;
  // Each block into its place of `tensors`.
  void ReadInto(absl::Span<float* const> tensors) const;
  // Keeps the weights there from now on.
  void MoveTo(std::shared_ptr<SharedTensors> shared);
  // One optimizer step per block.
  void Apply(const DenseGradients& sums, const PushContext& context, PushTally* tally);

  uint64_t count() const { return blocks_.size(); }
  PartBlock At(uint64_t block) const;
  // Whether it was stepped by a push that made a version above this one.
  bool ChangedSince(uint64_t block, uint64_t version) const { return blocks_[block].version > version; }
  // Overwrites a block with what a checkpoint held, state too or not. INVALID_ARGUMENT when shapes differ.
  absl::Status Restore(const PartBlock& block, bool with_state);

 private:
  struct Block {
    const DenseBlock* layout;
    float* weights;          // own, or of shared_
    std::vector<float> own;  // empty: they are shared
    std::vector<float> state;
    uint64_t version = 0;  // of the partition after the last step
  };
  void KeepOwn();  // ends the sharing of its weights
  absl::Span<const DenseBlock> layout() const { return schema_.layout.BlocksOf(partition_); }

  const JobSchema& schema_;
  const uint32_t partition_;
  StoreStats* const stats_;
  std::vector<Block> blocks_;
  std::shared_ptr<SharedTensors> shared_;  // may be null
  uint64_t floats_ = 0;
  uint64_t bytes_ = 0;
  std::vector<float> scratch_;
};

}  // namespace shoal

#endif  // SHOAL_SERVER_STORE_DENSE_BLOCKS_H_
