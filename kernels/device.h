// Where numbers live and where work runs. Every kernel and layer takes these types, so that a second kind of device
// needs new kernels but no new layers.
#ifndef SHOAL_KERNELS_DEVICE_H_
#define SHOAL_KERNELS_DEVICE_H_

#include <cstddef>
#include <type_traits>

namespace shoal {

enum class Device { kCpu, kCuda };

inline const char* DeviceName(Device device) { return device == Device::kCpu ? "cpu" : "cuda"; }

// Memory of one device. Implementations say whether they are thread-safe.
class DeviceAllocator {
 public:
  virtual ~DeviceAllocator() = default;
  // At least 64-byte aligned; nullptr when the device is out of memory.
  virtual void* Allocate(size_t bytes) = 0;
  virtual void Free(void* memory) = 0;
};

// The place on which one lane computes. Owned by the lane; not thread-safe.
struct DeviceContext {
  Device device = Device::kCpu;
  void* stream = nullptr;                // kCuda: the cudaStream_t on which all of the lane's work is queued
  DeviceAllocator* allocator = nullptr;  // nullptr: the heap
};

// A row-major matrix that is borrowed from its owner and knows its device. Activations are [batch, width].
template <typename T>
struct MatrixView {
  T* data = nullptr;
  size_t rows = 0;
  size_t columns = 0;
  Device device = Device::kCpu;

  size_t size() const { return rows * columns; }
  T* row(size_t i) const { return data + i * columns; }
  // A writable view reads as a constant one.
  template <typename U, typename = std::enable_if_t<std::is_same_v<const T, U> && !std::is_const_v<T>>>
  operator MatrixView<U>() const {
    return {data, rows, columns, device};
  }
};

using Matrix = MatrixView<float>;
using ConstMatrix = MatrixView<const float>;

}  // namespace shoal

#endif  // SHOAL_KERNELS_DEVICE_H_
