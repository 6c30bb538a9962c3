// How dense tensors are cut into blocks and placed on partitions. A pure function of the model and the number of
// partitions, so that workers and servers agree without talking.
#ifndef SHOAL_PROTO_WIRE_DENSE_LAYOUT_H_
#define SHOAL_PROTO_WIRE_DENSE_LAYOUT_H_

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "proto/plan.pb.h"

namespace shoal {

// Floats [offset, offset + size) of one tensor, in row-major order.
struct DenseBlock {
  uint32_t tensor = 0;
  uint64_t index = 0;  // of the block in its tensor
  uint64_t offset = 0;
  uint64_t size = 0;
  uint64_t row_size = 0;  // rows for row-wise optimizers: the tensor's last extent, or less in the tail of a cut row
  uint32_t partition = 0;
};

// Immutable after Create.
class DenseLayout {
 public:
  // 64 KiB of f32: one big matrix spreads over all servers, yet a block still fills a cache-friendly pass.
  static constexpr uint64_t kBlockFloats = 16384;

  // Blocks hold whole rows where a row fits a block. INVALID_ARGUMENT when a shape overflows 2^40 floats.
  static absl::StatusOr<DenseLayout> Create(const ModelSpec& spec, uint32_t partitions);

  // All blocks, sorted by (partition, tensor, index).
  absl::Span<const DenseBlock> blocks() const { return blocks_; }
  // The blocks of one partition, a range of blocks().
  absl::Span<const DenseBlock> BlocksOf(uint32_t partition) const;
  // Floats of one partition's blocks.
  uint64_t FloatsOf(uint32_t partition) const { return floats_[partition]; }
  // Elements of a tensor.
  uint64_t TensorSize(uint32_t tensor) const { return tensor_sizes_[tensor]; }

 private:
  std::vector<DenseBlock> blocks_;
  std::vector<uint32_t> begin_;   // partitions + 1
  std::vector<uint64_t> floats_;  // partitions
  std::vector<uint64_t> tensor_sizes_;
};

}  // namespace shoal

#endif  // SHOAL_PROTO_WIRE_DENSE_LAYOUT_H_
