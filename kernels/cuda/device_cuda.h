// Which CUDA devices this binary can use on this machine.
#ifndef SHOAL_KERNELS_CUDA_DEVICE_CUDA_H_
#define SHOAL_KERNELS_CUDA_DEVICE_CUDA_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace shoal::cuda {

struct CudaDevice {
  std::string name;
  int compute_major = 0;
  int compute_minor = 0;
  uint64_t memory_bytes = 0;
};

// The devices by ordinal, at least one. UNAVAILABLE with the reason when there is none: the binary was built without a
// CUDA toolkit, or the machine has no driver or no device. Thread-safe.
absl::StatusOr<std::vector<CudaDevice>> ListCudaDevices();

}  // namespace shoal::cuda

#endif  // SHOAL_KERNELS_CUDA_DEVICE_CUDA_H_
