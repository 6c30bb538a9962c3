// Memory of a lane for one layer graph.
#ifndef SHOAL_WORKER_MODEL_WORKSPACE_H_
#define SHOAL_WORKER_MODEL_WORKSPACE_H_

#include <cstdlib>
#include <memory>
#include <new>
#include <vector>

#include "worker/model/layers/graph_layer.h"

namespace shoal {

// Floats that only ever grow, 64-byte aligned, not initialised. Not thread-safe.
class FloatBuffer {
 public:
  // At least `size` floats; earlier contents are lost when it grows.
  float* Reserve(size_t size) {
    if (size > capacity_) {
      // A quarter more, so that batches of slightly different sizes don't each allocate.
      capacity_ = size + size / 4;
      data_.reset(static_cast<float*>(std::aligned_alloc(64, (capacity_ * sizeof(float) + 63) / 64 * 64)));
      if (data_ == nullptr) throw std::bad_alloc();
    }
    return data_.get();
  }

 private:
  struct Free {
    void operator()(float* data) const { std::free(data); }
  };
  std::unique_ptr<float, Free> data_;
  size_t capacity_ = 0;
};

// Owned by one lane. Not thread-safe.
class GraphWorkspace : public ModelWorkspace {
 public:
  explicit GraphWorkspace(size_t layers) : layers(layers) {}

  struct PerLayer {
    FloatBuffer output, gradient, scratch;
    std::vector<ConstMatrix> inputs;
    std::vector<InputGradient> input_gradients;
    std::unique_ptr<LayerState> state;
    LayerIo io;
  };
  DeviceContext device;
  std::vector<PerLayer> layers;
  FloatBuffer predictions;
};

}  // namespace shoal

#endif  // SHOAL_WORKER_MODEL_WORKSPACE_H_
