#include "base/hash.h"

// Compiled in: most tokens are a few bytes long, for which the call would cost as much as the hash.
#define XXH_INLINE_ALL
#include <xxhash.h>

namespace shoal {

uint64_t HashBytes(absl::string_view bytes, uint64_t seed) { return XXH64(bytes.data(), bytes.size(), seed); }

}  // namespace shoal
