#include "kernels/cuda/device_cuda.h"

#include <catch2/catch.hpp>
#include <iostream>

namespace shoal::cuda {
namespace {

TEST_CASE("CUDA: devices are listed, or their absence has a reason", "[unit][gpu]") {
  const auto devices = ListCudaDevices();
  if (!devices.ok()) {
    CHECK(devices.status().code() == absl::StatusCode::kUnavailable);
    CHECK(devices.status().message().find("no CUDA device can be used: ") == 0);
    std::cout << "SKIPPED: " << devices.status().message() << "\n";
    return;
  }
  REQUIRE_FALSE(devices->empty());
  for (const CudaDevice& device : *devices) {
    CHECK_FALSE(device.name.empty());
    CHECK(device.compute_major >= 3);
    CHECK(device.memory_bytes > uint64_t{1} << 20);
  }
}

}  // namespace
}  // namespace shoal::cuda
