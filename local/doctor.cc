#include "local/doctor.h"

#include <dlfcn.h>
#include <sys/resource.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <clocale>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/machine.h"
#include "local/connection.h"

namespace shoal {
namespace {

double GiB(uint64_t bytes) { return static_cast<double>(bytes) / (1ull << 30); }

// A small file's text; empty when it can't be read.
std::string ReadText(const std::string& path) {
  std::ifstream file(path);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// Bytes that programs can still get; 0 when the system doesn't say.
uint64_t AvailableMemory() {
  std::ifstream file("/proc/meminfo");
  std::string name, unit;
  uint64_t kibibytes;
  while (file >> name >> kibibytes && std::getline(file, unit)) {
    if (name == "MemAvailable:") return kibibytes * 1024;
  }
  return 0;
}

Finding Cores() {
  const uint32_t cores = UsableCores();
  Finding finding{"cores", cores >= 2, absl::StrCat(cores), ""};
  if (!finding.ok) finding.advice = "one core is shared by reading, computing and the network: expect slow steps";
  return finding;
}

Finding MemorySize() {
  const uint64_t total = MemoryBytes(), available = AvailableMemory();
  Finding finding{"memory", available >= (1ull << 30),
                  absl::StrFormat("%.1f GiB, %.1f GiB available", GiB(total), GiB(available)), ""};
  if (!finding.ok) finding.advice = "less than 1 GiB is available: set memory.hard_limit in the job file";
  return finding;
}

Finding CgroupLimit() {
  const std::string text = ReadText("/sys/fs/cgroup/memory.max");
  Finding finding{"memory limit", true, "none", ""};
  const uint64_t limit = std::strtoull(text.c_str(), nullptr, 10);
  if (limit > 0) finding.found = absl::StrFormat("%.1f GiB (cgroup)", GiB(limit));
  return finding;
}

Finding HugePages() {
  const std::string text = ReadText("/sys/kernel/mm/transparent_hugepage/enabled");
  Finding finding{"huge pages", !text.empty() && !absl::StrContains(text, "[never]"), "not supported", ""};
  const size_t open = text.find('['), close = text.find(']');
  if (open != std::string::npos && close != std::string::npos) finding.found = text.substr(open + 1, close - open - 1);
  if (!finding.ok) finding.advice = "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled speeds up big tables";
  return finding;
}

Finding Simd() {
  Finding finding{"instruction set", true, "", ""};
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f")) {
    finding.found = "AVX-512";
  } else if (__builtin_cpu_supports("avx2")) {
    finding.found = "AVX2";
  } else if (__builtin_cpu_supports("sse4.2")) {
    finding.found = "SSE4.2";
    finding.advice = "without AVX2 a step takes several times as long";
  } else {
    finding = {"instruction set", false, "older than x86-64-v2", "this binary needs SSE4.2"};
  }
#else
  finding = {"instruction set", false, "not x86-64", "only x86-64 is tested"};
#endif
  return finding;
}

Finding Locale() {
  const char* const name = std::setlocale(LC_ALL, "");
  const bool ok = name != nullptr;
  const std::string point = ok ? std::localeconv()->decimal_point : ".";
  std::setlocale(LC_ALL, "C");
  Finding finding{"locale", ok, ok ? absl::StrCat("decimal point '", point, "'") : "the environment's is not installed",
                  ""};
  if (!ok) finding.advice = "export LC_ALL=C.UTF-8";
  return finding;
}

Finding OpenFiles() {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  Finding finding{"open files", limit.rlim_cur >= 1024, absl::StrCat("limit ", limit.rlim_cur), ""};
  if (!finding.ok) finding.advice = "ulimit -n 65536: each connection and input file takes one";
  return finding;
}

Finding ScratchSpace() {
  const char* const variable = std::getenv("TMPDIR");
  const std::string dir = variable != nullptr && *variable != '\0' ? variable : "/tmp";
  struct statvfs stat {};
  if (statvfs(dir.c_str(), &stat) != 0 || access(dir.c_str(), W_OK) != 0) {
    return {"scratch space", false, absl::StrCat(dir, " cannot be written"), "set TMPDIR to a directory with space"};
  }
  const uint64_t free = static_cast<uint64_t>(stat.f_bavail) * stat.f_frsize;
  Finding finding{"scratch space", free >= (1ull << 30), absl::StrFormat("%s, %.1f GiB free", dir, GiB(free)), ""};
  if (!finding.ok) finding.advice = "compressed inputs are decompressed there: set TMPDIR to a directory with space";
  return finding;
}

Finding Gpu() {
  std::error_code error;
  if (!std::filesystem::exists("/dev/nvidiactl", error)) return {"GPU", true, "none: lanes run on the CPU", ""};
  void* const driver = dlopen("libcuda.so.1", RTLD_LAZY);
  if (driver == nullptr) return {"GPU", false, "a device, but no driver library", "install libcuda.so.1"};
  dlclose(driver);
  return {"GPU", true, "present (lanes of this version run on the CPU)", ""};
}

Finding Scheduler(const DoctorOptions& options) {
  const absl::StatusOr<std::unique_ptr<SchedulerClient>> scheduler =
      ConnectScheduler(options.scheduler, options.connect_timeout);
  if (scheduler.ok()) return {"scheduler", true, absl::StrCat(options.scheduler, " answers"), ""};
  return {"scheduler", false, std::string(scheduler.status().message()), "start it, or check address and firewall"};
}

}  // namespace

std::vector<Finding> Examine(const DoctorOptions& options) {
  std::vector<Finding> findings = {Cores(),  MemorySize(), CgroupLimit(),  HugePages(), Simd(),
                                   Locale(), OpenFiles(),  ScratchSpace(), Gpu()};
  if (!options.scheduler.empty()) findings.push_back(Scheduler(options));
  return findings;
}

}  // namespace shoal
