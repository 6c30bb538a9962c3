#include "worker/train/fingerprint.h"

#include <dnnl.h>

#include "absl/strings/str_cat.h"
#include "base/version.h"
#include "hwy/targets.h"
#include "kernels/cpu/linear_products.h"

namespace shoal {

namespace {

// The instruction set that Highway's loops take: the lowest bit is the best one.
int64_t BestTarget() {
  const int64_t targets = hwy::SupportedTargets();
  return targets & -targets;
}

}  // namespace

std::string ComputeFingerprint() {
  const dnnl_version_t* const dnnl = dnnl_version();
  return absl::StrCat("shoal ", kVersion, ", oneDNN ", dnnl->major, ".", dnnl->minor, ".", dnnl->patch, ", isa ",
                      absl::Hex(static_cast<uint32_t>(dnnl_get_effective_cpu_isa())), ", loops ",
                      hwy::TargetName(BestTarget()), ", bf16 ", cpu::HasBf16Kernels() ? "native" : "emulated", ", cpu");
}

}  // namespace shoal
