// Dense weights that lanes of the server's own process read in place.
#ifndef SHOAL_SERVER_STORE_SHARED_TENSORS_H_
#define SHOAL_SERVER_STORE_SHARED_TENSORS_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "proto/wire/dense_layout.h"
#include "proto/wire/parameter_messages.h"

namespace shoal {

// The weights of a job's tensors, each in one piece: partitions keep their blocks here instead of each for itself.
// Thread-safe but for At, which those use who own the block.
class SharedTensors : public std::enable_shared_from_this<SharedTensors> {
 public:
  static std::shared_ptr<SharedTensors> Create(const DenseLayout& layout, uint32_t tensors) {
    std::shared_ptr<SharedTensors> out(new SharedTensors);
    for (uint32_t t = 0; t < tensors; ++t) out->values_.emplace_back(layout.TensorSize(t));
    return out;
  }

  // For reading all of it. While any of these is held nobody writes here: DenseBlocks goes on elsewhere.
  std::shared_ptr<const TensorValues> Read() {
    readers_.fetch_add(1, std::memory_order_relaxed);
    return {&values_, [self = shared_from_this()](const TensorValues*) {
              self->readers_.fetch_sub(1, std::memory_order_release);
            }};
  }
  // What ended before has happened before. More readers can only come by Read.
  bool BeingRead() const { return readers_.load(std::memory_order_acquire) != 0; }
  float* At(const DenseBlock& block) { return values_[block.tensor].data() + block.offset; }

 private:
  SharedTensors() = default;
  TensorValues values_;
  std::atomic<uint64_t> readers_{0};
};

}  // namespace shoal

#endif  // SHOAL_SERVER_STORE_SHARED_TENSORS_H_
