#include "server/store/dense_blocks.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "server/store/initial_values.h"

namespace shoal {

DenseBlocks::DenseBlocks(const JobSchema& schema, uint32_t partition, StoreStats* stats)
    : schema_(schema), stats_(stats) {
  uint64_t largest = 0;
  for (const DenseBlock& layout : schema.layout.BlocksOf(partition)) {
    Block block;
    block.layout = &layout;
    block.state_size = schema.dense_rule->BlockStateSize(layout.size, layout.row_size);
    block.values.resize(layout.size + block.state_size);
    FillInitialBlock(schema.seed, schema.tensors[layout.tensor], layout.offset, layout.size, block.values.data());
    schema.dense_rule->InitBlock(block.values.data() + layout.size, layout.size, layout.row_size);
    floats_ += layout.size;
    bytes_ += block.values.size() * sizeof(float);
    largest = std::max(largest, layout.size);
    blocks_.push_back(std::move(block));
  }
  scratch_.resize(largest);
  stats_->dense_bytes += static_cast<int64_t>(bytes_);
  stats_->used_bytes += static_cast<int64_t>(bytes_);
}

DenseBlocks::~DenseBlocks() {
  stats_->dense_bytes -= static_cast<int64_t>(bytes_);
  stats_->used_bytes -= static_cast<int64_t>(bytes_);
}

void DenseBlocks::Read(uint64_t begin, uint64_t count, float* out) const {
  for (const Block& block : blocks_) {
    const uint64_t size = block.layout->size;
    if (count == 0) return;
    if (begin < size) {
      const uint64_t some = std::min(count, size - begin);
      std::memcpy(out, block.values.data() + begin, some * sizeof(float));
      out += some;
      count -= some;
      begin = 0;
    } else {
      begin -= size;
    }
  }
}

void DenseBlocks::Apply(const float* sums, const PushContext& context, PushTally* tally) {
  for (Block& block : blocks_) {
    const uint64_t size = block.layout->size;
    float* gradient = scratch_.data();
    int bad = 0;
    for (uint64_t i = 0; i < size; ++i) {
      gradient[i] = sums[i] / context.divisor;
      // Written so that a NaN counts as too large.
      bad |= !(std::abs(gradient[i]) <= schema_.max_abs);
    }
    sums += size;
    if (schema_.guard && bad != 0) {
      tally->RefuseBlocks(block.layout->tensor, 1);
      continue;
    }
    schema_.dense_rule->UpdateBlock(block.values.data(), block.values.data() + size, gradient, size,
                                    block.layout->row_size, context.factor);
    block.version = context.version;
  }
}

PartBlock DenseBlocks::At(uint64_t index) const {
  const Block& block = blocks_[index];
  PartBlock out;
  out.tensor = block.layout->tensor;
  out.index = block.layout->index;
  out.offset = block.layout->offset;
  out.weights = absl::MakeConstSpan(block.values).subspan(0, block.layout->size);
  out.state = absl::MakeConstSpan(block.values).subspan(block.layout->size);
  return out;
}

absl::Status DenseBlocks::Restore(const PartBlock& saved, bool with_state) {
  for (Block& block : blocks_) {
    if (block.layout->tensor != saved.tensor || block.layout->index != saved.index) continue;
    if (block.layout->offset != saved.offset || block.layout->size != saved.weights.size() ||
        (with_state && block.state_size != saved.state.size())) {
      return absl::InvalidArgumentError(absl::StrCat(
          "tensor ", schema_.tensors[saved.tensor].name(), " block ", saved.index, ": the checkpoint holds ",
          saved.weights.size(), " weights and ", saved.state.size(), " floats of optimizer state at ", saved.offset,
          ", the job needs ", block.layout->size, " and ", block.state_size, " at ", block.layout->offset));
    }
    std::copy(saved.weights.begin(), saved.weights.end(), block.values.begin());
    if (!with_state) return absl::OkStatus();
    std::copy(saved.state.begin(), saved.state.end(),
              block.values.begin() + static_cast<int64_t>(saved.weights.size()));
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("tensor ", schema_.tensors[saved.tensor].name(), " block ",
                                                 saved.index, ": the job's layout has no such block here"));
}

}  // namespace shoal
