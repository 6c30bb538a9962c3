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
// From now on memory that is freed stays with the process for the next message of the same size, up to a bound: asking
// the system for it again and again costs a page fault for every 4 KiB of it. For processes that send and receive large
// messages.
void KeepFreedMemory();
// Name of the machine, for messages.
std::string HostName();

}  // namespace shoal

#endif  // SHOAL_BASE_MACHINE_H_
