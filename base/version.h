// The version of shoal, as `shoal version` prints it.
#ifndef SHOAL_BASE_VERSION_H_
#define SHOAL_BASE_VERSION_H_

namespace shoal {

inline constexpr char kVersion[] = "0.1.0";

}  // namespace shoal

#endif  // SHOAL_BASE_VERSION_H_
