// What checkpoints are called in their directory: the scheduler names them, servers number on from what is there.
#ifndef SHOAL_BASE_CHECKPOINT_NAME_H_
#define SHOAL_BASE_CHECKPOINT_NAME_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/optional.h"

namespace shoal {

// A number above, which nobody gets to by counting, would leave the next checkpoint without a name.
inline constexpr uint64_t kLastCheckpoint = (uint64_t{1} << 63) - 2;

// "ckpt-00000007": of one width up to eight digits, so that names sort as numbers do.
std::string CheckpointName(uint64_t number);
// The number of such a name, at most kLastCheckpoint; nothing for any other ("ckpt-00000007.tmp").
absl::optional<uint64_t> CheckpointNumber(absl::string_view name);

}  // namespace shoal

#endif  // SHOAL_BASE_CHECKPOINT_NAME_H_
