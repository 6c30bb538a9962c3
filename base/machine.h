// What a process knows of the machine it runs on.
#ifndef SHOAL_BASE_MACHINE_H_
#define SHOAL_BASE_MACHINE_H_

#include <cstdint>
#include <string>

namespace shoal {

// Cores that this process may use (its affinity mask), at least 1.
uint32_t UsableCores();
// Physical memory.
uint64_t MemoryBytes();
// Name of the machine, for messages.
std::string HostName();

}  // namespace shoal

#endif  // SHOAL_BASE_MACHINE_H_
