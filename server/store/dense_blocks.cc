#include "server/store/dense_blocks.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "server/store/initial_values.h"

namespace shoal {

DenseBlocks::DenseBlocks(const JobSchema& schema, uint32_t partition, StoreStats* stats)
    : schema_(schema), partition_(partition), stats_(stats) {
  uint64_t largest = 0;
  for (const DenseBlock& layout : this->layout()) {
    Block block;
    block.layout = &layout;
    block.own.resize(layout.size);
    block.weights = block.own.data();
    block.state.resize(schema.dense_rule->BlockStateSize(layout.size, layout.row_size));
    FillInitialBlock(schema.seed, schema.tensors[layout.tensor], layout.offset, layout.size, block.weights);
    schema.dense_rule->InitBlock(block.state.data(), layout.size, layout.row_size);
    floats_ += layout.size;
    bytes_ += (layout.size + block.state.size()) * sizeof(float);
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
      std::memcpy(out, block.weights + begin, some * sizeof(float));
      out += some;
      count -= some;
      begin = 0;
    } else {
      begin -= size;
    }
  }
}

void DenseBlocks::ReadInto(absl::Span<float* const> tensors) const {
  for (const Block& block : blocks_) {
    std::memcpy(tensors[block.layout->tensor] + block.layout->offset, block.weights,
                block.layout->size * sizeof(float));
  }
}

void DenseBlocks::MoveTo(std::shared_ptr<SharedTensors> shared) {
  for (Block& block : blocks_) {
    float* const to = shared->At(*block.layout);
    std::memcpy(to, block.weights, block.layout->size * sizeof(float));
    block.weights = to;
    block.own = {};
  }
  shared_ = std::move(shared);
}

void DenseBlocks::KeepOwn() {
  for (Block& block : blocks_) {
    block.own.assign(block.weights, block.weights + block.layout->size);
    block.weights = block.own.data();
  }
  shared_ = nullptr;
}

void DenseBlocks::Apply(const DenseGradients& sums, const PushContext& context, PushTally* tally) {
  // A late lane's: it must not see its weights change, though nobody will take its push.
  if (shared_ != nullptr && shared_->BeingRead()) KeepOwn();
  size_t next = 0;
  sums.ForEach(layout(), [&](const DenseBlock& layout, const float* from) {
    Block& block = blocks_[next++];
    float* const gradient = scratch_.data();
    int bad = 0;
    for (uint64_t i = 0; i < layout.size; ++i) {
      gradient[i] = from[i] / context.divisor;
      // Written so that a NaN counts as too large.
      bad |= !(std::abs(gradient[i]) <= schema_.max_abs);
    }
    if (schema_.guard && bad != 0) return tally->RefuseBlocks(layout.tensor, 1);
    schema_.dense_rule->UpdateBlock(block.weights, block.state.data(), gradient, layout.size, layout.row_size,
                                    context.factor);
    block.version = context.version;
  });
}

PartBlock DenseBlocks::At(uint64_t index) const {
  const Block& block = blocks_[index];
  PartBlock out;
  out.tensor = block.layout->tensor;
  out.index = block.layout->index;
  out.offset = block.layout->offset;
  out.weights = absl::MakeConstSpan(block.weights, block.layout->size);
  out.state = block.state;
  return out;
}

absl::Status DenseBlocks::Restore(const PartBlock& saved, bool with_state) {
  for (Block& block : blocks_) {
    if (block.layout->tensor != saved.tensor || block.layout->index != saved.index) continue;
    if (block.layout->offset != saved.offset || block.layout->size != saved.weights.size() ||
        (with_state && block.state.size() != saved.state.size())) {
      return absl::InvalidArgumentError(absl::StrCat(
          "tensor ", schema_.tensors[saved.tensor].name(), " block ", saved.index, ": the checkpoint holds ",
          saved.weights.size(), " weights and ", saved.state.size(), " floats of optimizer state at ", saved.offset,
          ", the job needs ", block.layout->size, " and ", block.state.size(), " at ", block.layout->offset));
    }
    std::copy(saved.weights.begin(), saved.weights.end(), block.weights);
    if (with_state) std::copy(saved.state.begin(), saved.state.end(), block.state.begin());
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("tensor ", schema_.tensors[saved.tensor].name(), " block ",
                                                 saved.index, ": the job's layout has no such block here"));
}

}  // namespace shoal
