#include "worker/train/fingerprint.h"

#include <dnnl.h>

#include "absl/strings/str_cat.h"
#include "base/version.h"

namespace shoal {

std::string ComputeFingerprint() {
  const dnnl_version_t* const dnnl = dnnl_version();
  return absl::StrCat("shoal ", kVersion, ", oneDNN ", dnnl->major, ".", dnnl->minor, ".", dnnl->patch, ", isa ",
                      absl::Hex(static_cast<uint32_t>(dnnl_get_effective_cpu_isa())), ", cpu");
}

}  // namespace shoal
