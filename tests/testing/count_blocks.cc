#include "tests/testing/count_blocks.h"

#include <cxxabi.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <link.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <initializer_list>

#include "absl/strings/str_cat.h"

// glibc's own names of what is replaced below.
extern "C" {
void* __libc_malloc(size_t bytes);
void* __libc_calloc(size_t count, size_t bytes);
void* __libc_realloc(void* memory, size_t bytes);
void* __libc_memalign(size_t alignment, size_t bytes);
}

namespace shoal {
namespace {

enum class Library : uint8_t { kGeneral, kGrpc, kOnednn, kOurs };

struct Range {
  uintptr_t begin, end;
  Library library;
};

constexpr size_t kRanges = 1024;
constexpr int kFrames = 48;
constexpr uint64_t kKept = 8;

Range ranges[kRanges];
size_t range_count = 0;
std::atomic<bool> counting{false};  // in all threads
thread_local bool counting_here = false;
std::atomic<uint64_t> ours{0}, grpcs{0};
void* kept[kKept][kFrames];
int kept_frames[kKept];
thread_local bool inside = false;

bool Names(const char* path, std::initializer_list<const char*> parts) {
  return std::any_of(parts.begin(), parts.end(), [&](const char* part) { return std::strstr(path, part) != nullptr; });
}

int AddRanges(dl_phdr_info* info, size_t, void*) {
  Library library = Library::kGeneral;
  if (Names(info->dlpi_name, {"/libgrpc", "/libgpr.", "/libupb", "/libaddress_sorting", "/libcares"})) {
    library = Library::kGrpc;
  } else if (Names(info->dlpi_name, {"/libdnnl."})) {
    library = Library::kOnednn;
  } else if (!Names(info->dlpi_name,
                    {"/libc.so", "/libstdc++.", "/libgcc_s", "/ld-linux", "/libabsl", "/libprotobuf"})) {
    return 0;
  }
  for (int i = 0; i < info->dlpi_phnum && range_count < kRanges; ++i) {
    const ElfW(Phdr)& header = info->dlpi_phdr[i];
    if (header.p_type != PT_LOAD || (header.p_flags & PF_X) == 0) continue;
    const uintptr_t begin = info->dlpi_addr + header.p_vaddr;
    ranges[range_count++] = {begin, begin + header.p_memsz, library};
  }
  return 0;
}

// `first`: frames of this file.
Library AskedBy(void* const* frames, int count, int first) {
  for (int i = first; i < count; ++i) {
    const auto at = reinterpret_cast<uintptr_t>(frames[i]);
    const Range* const range =
        std::find_if(ranges, ranges + range_count, [&](const Range& r) { return at >= r.begin && at < r.end; });
    if (range == ranges + range_count) return Library::kOurs;
    if (range->library != Library::kGeneral) return range->library;
  }
  return Library::kOurs;
}

// Called by the functions below only, which are in its stack.
__attribute__((noinline)) void Count(size_t bytes) {
  if (bytes < kLargeBlock || inside || !(counting_here || counting.load(std::memory_order_relaxed))) return;
  inside = true;
  void* frames[kFrames];
  const int count = backtrace(frames, kFrames);
  const Library by = AskedBy(frames, count, 2);
  if (by == Library::kGrpc) {
    ++grpcs;
  } else if (by == Library::kOurs) {
    const uint64_t number = ours++;
    if (number < kKept) {
      std::copy(frames, frames + count, kept[number]);
      kept_frames[number] = count;
    }
  }
  inside = false;
}

}  // namespace

void StartCounting(CountedThreads threads) {
  if (range_count == 0) {
    dl_iterate_phdr(AddRanges, nullptr);
    void* frame;
    backtrace(&frame, 1);  // loads what it needs
  }
  ours = grpcs = 0;
  counting_here = threads == CountedThreads::kThis;
  counting = threads == CountedThreads::kAll;
}

BlockCounts StopCounting() {
  counting = counting_here = false;
  return {ours, grpcs};
}

std::string CountedStacks() {
  std::string text;
  for (uint64_t i = 0; i < std::min<uint64_t>(ours, kKept); ++i) {
    for (int f = 2; f < kept_frames[i]; ++f) {
      Dl_info info;
      if (dladdr(kept[i][f], &info) == 0) continue;
      const char* const name = info.dli_sname != nullptr ? info.dli_sname : std::strrchr(info.dli_fname, '/');
      char* const readable = abi::__cxa_demangle(name, nullptr, nullptr, nullptr);
      // For addr2line.
      const uintptr_t at = reinterpret_cast<uintptr_t>(kept[i][f]) - reinterpret_cast<uintptr_t>(info.dli_fbase);
      text += absl::StrCat("  ", readable != nullptr ? readable : name, " 0x", absl::Hex(at), "\n");
      std::free(readable);
    }
    text += "\n";
  }
  return text;
}

}  // namespace shoal

extern "C" {

void* malloc(size_t bytes) {
  shoal::Count(bytes);
  return __libc_malloc(bytes);
}

void* calloc(size_t count, size_t bytes) {
  shoal::Count(count * bytes);
  return __libc_calloc(count, bytes);
}

void* realloc(void* memory, size_t bytes) {
  shoal::Count(bytes);
  return __libc_realloc(memory, bytes);
}

void* memalign(size_t alignment, size_t bytes) {
  shoal::Count(bytes);
  return __libc_memalign(alignment, bytes);
}

void* aligned_alloc(size_t alignment, size_t bytes) {
  shoal::Count(bytes);
  return __libc_memalign(alignment, bytes);
}

int posix_memalign(void** memory, size_t alignment, size_t bytes) {
  shoal::Count(bytes);
  *memory = __libc_memalign(alignment, bytes);
  return *memory == nullptr ? ENOMEM : 0;
}

}  // extern "C"
