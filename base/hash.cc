#include "base/hash.h"

#include <xxhash.h>

namespace shoal {

uint64_t HashBytes(absl::string_view bytes, uint64_t seed) { return XXH64(bytes.data(), bytes.size(), seed); }

}  // namespace shoal
