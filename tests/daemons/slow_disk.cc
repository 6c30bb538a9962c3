// Preloaded into a daemon (LD_PRELOAD): a slow disk, without any privilege. While the file SLOW_DISK exists, files are
// written with as many bytes a second as it says. Sockets, pipes and stderr are left alone.
#include <dlfcn.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>

namespace {

template <typename Function>
Function* Real(Function*, const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

// Bytes a second; 0: as fast as it is.
int64_t Rate() {
  const char* const path = std::getenv("SLOW_DISK");
  std::FILE* const file = path == nullptr ? nullptr : std::fopen(path, "r");
  if (file == nullptr) return 0;
  long long rate = 0;
  if (std::fscanf(file, "%lld", &rate) != 1) rate = 0;
  std::fclose(file);
  return rate;
}

void Wait(int fd, ssize_t bytes) {
  struct stat info;
  if (bytes <= 0 || fd <= STDERR_FILENO || fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) return;
  constexpr double kSlice = 0.02;  // seconds
  for (double left = static_cast<double>(bytes); left > 0;) {
    const double rate = static_cast<double>(Rate());
    if (rate <= 0) return;
    timespec nap{0, static_cast<long>(1e9 * std::min(kSlice, left / rate))};
    nanosleep(&nap, nullptr);
    left -= rate * kSlice;
  }
}

}  // namespace

extern "C" {

ssize_t write(int fd, const void* data, size_t bytes) {
  static auto* const real = Real(&write, "write");
  const ssize_t did = real(fd, data, bytes);
  Wait(fd, did);
  return did;
}

ssize_t pwrite(int fd, const void* data, size_t bytes, off_t offset) {
  static auto* const real = Real(&pwrite, "pwrite");
  const ssize_t did = real(fd, data, bytes, offset);
  Wait(fd, did);
  return did;
}

ssize_t writev(int fd, const iovec* data, int count) {
  static auto* const real = Real(&writev, "writev");
  const ssize_t did = real(fd, data, count);
  Wait(fd, did);
  return did;
}

}  // extern "C"
