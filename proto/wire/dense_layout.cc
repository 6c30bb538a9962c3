#include "proto/wire/dense_layout.h"

#include <algorithm>
#include <tuple>

#include "absl/strings/str_cat.h"
#include "base/hash.h"

namespace shoal {
namespace {

constexpr uint64_t kMaxTensorFloats = uint64_t{1} << 40;

absl::StatusOr<uint64_t> SizeOf(const TensorSpec& tensor) {
  uint64_t size = 1;
  for (uint64_t extent : tensor.shape()) {
    if (extent == 0 || extent > kMaxTensorFloats / size) {
      return absl::InvalidArgumentError(absl::StrCat("tensor ", tensor.name(), ": extent ", extent,
                                                     " is 0 or makes the tensor larger than 2^40 floats"));
    }
    size *= extent;
  }
  return size;
}

}  // namespace

absl::StatusOr<DenseLayout> DenseLayout::Create(const ModelSpec& spec, uint32_t partitions) {
  if (partitions == 0) return absl::InvalidArgumentError("partitions: 0, must be at least 1");
  DenseLayout layout;
  for (int t = 0; t < spec.tensors_size(); ++t) {
    const TensorSpec& tensor = spec.tensors(t);
    absl::StatusOr<uint64_t> size = SizeOf(tensor);
    if (!size.ok()) return size.status();
    layout.tensor_sizes_.push_back(*size);
    const uint64_t row = tensor.shape_size() == 0 ? 1 : tensor.shape(tensor.shape_size() - 1);
    const uint64_t step = row <= kBlockFloats ? kBlockFloats / row * row : kBlockFloats;
    uint64_t index = 0;
    for (uint64_t offset = 0; offset < *size; ++index) {
      // A row that is longer than a block is cut at its own end too, so that no block holds parts of two rows.
      const uint64_t limit = row <= kBlockFloats ? *size : (offset / row + 1) * row;
      DenseBlock block;
      block.tensor = static_cast<uint32_t>(t);
      block.index = index;
      block.offset = offset;
      block.size = std::min(step, limit - offset);
      block.row_size = std::min(row, block.size);
      block.partition = PartitionOfBlock(tensor.name(), index, partitions);
      layout.blocks_.push_back(block);
      offset += block.size;
    }
  }
  std::sort(layout.blocks_.begin(), layout.blocks_.end(), [](const DenseBlock& a, const DenseBlock& b) {
    return std::tie(a.partition, a.tensor, a.index) < std::tie(b.partition, b.tensor, b.index);
  });
  layout.begin_.assign(partitions + 1, 0);
  layout.floats_.assign(partitions, 0);
  for (const DenseBlock& block : layout.blocks_) {
    ++layout.begin_[block.partition + 1];
    layout.floats_[block.partition] += block.size;
  }
  for (uint32_t p = 0; p < partitions; ++p) layout.begin_[p + 1] += layout.begin_[p];
  return layout;
}

absl::Span<const DenseBlock> DenseLayout::BlocksOf(uint32_t partition) const {
  return absl::MakeConstSpan(blocks_).subspan(begin_[partition], begin_[partition + 1] - begin_[partition]);
}

}  // namespace shoal
