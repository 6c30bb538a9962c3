#include "kernels/cuda/device_cuda.h"

#ifdef SHOAL_HAVE_CUDA
#include <cuda_runtime_api.h>

#include "absl/strings/str_cat.h"
#endif

namespace shoal::cuda {

#ifdef SHOAL_HAVE_CUDA

absl::StatusOr<std::vector<CudaDevice>> ListCudaDevices() {
  int count = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  if (error != cudaSuccess || count == 0) {
    return absl::UnavailableError(absl::StrCat(
        "no CUDA device can be used: ", error == cudaSuccess ? "the machine has none" : cudaGetErrorString(error)));
  }
  std::vector<CudaDevice> devices;
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties;
    const cudaError_t failed = cudaGetDeviceProperties(&properties, i);
    if (failed != cudaSuccess) {
      return absl::UnavailableError(
          absl::StrCat("CUDA device ", i, " cannot be asked for its properties: ", cudaGetErrorString(failed)));
    }
    devices.push_back({properties.name, properties.major, properties.minor, properties.totalGlobalMem});
  }
  return devices;
}

#else

absl::StatusOr<std::vector<CudaDevice>> ListCudaDevices() {
  return absl::UnavailableError("no CUDA device can be used: shoal was built without a CUDA toolkit");
}

#endif

}  // namespace shoal::cuda
