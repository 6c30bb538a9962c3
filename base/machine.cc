#include "base/machine.h"

#include <malloc.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>

namespace shoal {

uint32_t UsableCores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  if (sched_getaffinity(0, sizeof(set), &set) != 0) return 1;
  return static_cast<uint32_t>(std::max(1, CPU_COUNT(&set)));
}

uint64_t MemoryBytes() {
  const int64_t pages = sysconf(_SC_PHYS_PAGES);
  const int64_t page_bytes = sysconf(_SC_PAGE_SIZE);
  return pages > 0 && page_bytes > 0 ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(page_bytes) : 0;
}

void KeepFreedMemory() {
  // The largest value that malloc takes: what is larger comes from the system and goes back to it.
  constexpr int kMappedFrom = 32 << 20;
  constexpr int kKept = 128 << 20;  // free at the end of a heap
  mallopt(M_MMAP_THRESHOLD, kMappedFrom);
  mallopt(M_TRIM_THRESHOLD, kKept);
}

std::string HostName() {
  char name[256] = {};
  if (gethostname(name, sizeof(name) - 1) != 0) return "unknown";
  return name;
}

}  // namespace shoal
