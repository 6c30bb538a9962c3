// What decides the bits of a computation besides its inputs.
#ifndef SHOAL_WORKER_TRAIN_FINGERPRINT_H_
#define SHOAL_WORKER_TRAIN_FINGERPRINT_H_

#include <string>

namespace shoal {

// Version, libraries, instruction set and device. Two workers with equal fingerprints compute equal bits; a bsp job
// takes only workers that are equal to its first (docs/semantics.md section 3).
std::string ComputeFingerprint();

}  // namespace shoal

#endif  // SHOAL_WORKER_TRAIN_FINGERPRINT_H_
