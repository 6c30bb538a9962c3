// Where the gradients of dense blocks are.
#ifndef SHOAL_SERVER_STORE_DENSE_GRADIENTS_H_
#define SHOAL_SERVER_STORE_DENSE_GRADIENTS_H_

#include <cstdint>

#include "absl/types/span.h"
#include "proto/wire/dense_layout.h"

namespace shoal {

// Gradients of one partition's dense blocks: one block after the other, or each in its place in a whole tensor. Borrows
// them. A value: copy it.
class DenseGradients {
 public:
  DenseGradients() = default;  // none
  static DenseGradients InARow(const float* values) {
    DenseGradients out;
    out.values_ = values;
    return out;
  }
  static DenseGradients InTensors(absl::Span<const float* const> tensors) {
    DenseGradients out;
    out.tensors_ = tensors;
    return out;
  }

  bool none() const { return values_ == nullptr && tensors_.empty(); }
  // Calls visit(const DenseBlock&, const float* gradients) for the blocks, which are all of the partition, in order.
  template <typename Visit>
  void ForEach(absl::Span<const DenseBlock> blocks, Visit visit) const {
    uint64_t passed = 0;
    for (const DenseBlock& block : blocks) {
      visit(block, tensors_.empty() ? values_ + passed : tensors_[block.tensor] + block.offset);
      passed += block.size;
    }
  }

 private:
  const float* values_ = nullptr;
  absl::Span<const float* const> tensors_;
};

}  // namespace shoal

#endif  // SHOAL_SERVER_STORE_DENSE_GRADIENTS_H_
