// Preloaded into a daemon (LD_PRELOAD): a wall clock that jumps, without any privilege. The file CLOCK_JUMP holds, as 8
// bytes of an integer, by how many seconds the wall clock is off; it may be written at any time. Steady clocks are left
// alone. Waits until a time of the wall clock end when this clock says so, those that are under way included, as the
// kernel's do: that is what a jump back makes long.
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdlib>
#include <ctime>

namespace {

constexpr int64_t kNanos = 1000000000;

template <typename Function>
Function* Real(Function*, const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

// The number in the file; null: there is none.
const std::atomic<int64_t>* Map() {
  const char* const path = std::getenv("CLOCK_JUMP");
  const int fd = path == nullptr ? -1 : open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return nullptr;
  void* const memory = mmap(nullptr, sizeof(int64_t), PROT_READ, MAP_SHARED, fd, 0);
  close(fd);
  return memory == MAP_FAILED ? nullptr : static_cast<const std::atomic<int64_t>*>(memory);
}

int64_t OffSeconds() {
  static const std::atomic<int64_t>* const seconds = Map();
  return seconds == nullptr ? 0 : seconds->load(std::memory_order_relaxed);
}

int RealClock(clockid_t clock, timespec* time) {
  static auto* const real = Real(&clock_gettime, "clock_gettime");
  return real(clock, time);
}

int64_t RealNanos() {
  timespec now;
  RealClock(CLOCK_REALTIME, &now);
  return now.tv_sec * kNanos + now.tv_nsec;
}

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* time) {
  const int result = RealClock(clock, time);
  if (result == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) time->tv_sec += OffSeconds();
  return result;
}

int gettimeofday(timeval* time, void* zone) {
  static auto* const real = Real(&gettimeofday, "gettimeofday");
  const int result = real(time, zone);
  if (result == 0) time->tv_sec += OffSeconds();
  return result;
}

time_t time(time_t* out) {
  const time_t now = RealNanos() / kNanos + OffSeconds();
  if (out != nullptr) *out = now;
  return now;
}

// Abseil waits by futex, gRPC by Abseil.
long syscall(long number, ...) {
  static auto* const real = Real(&syscall, "syscall");
  va_list list;
  va_start(list, number);
  long a[6];
  for (long& argument : a) argument = va_arg(list, long);
  va_end(list);
  const auto* const until = reinterpret_cast<const timespec*>(a[3]);
  if (number != SYS_futex || until == nullptr || (a[1] & FUTEX_CMD_MASK) != FUTEX_WAIT_BITSET ||
      (a[1] & FUTEX_CLOCK_REALTIME) == 0) {
    return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
  }
  constexpr int64_t kSlice = kNanos / 50;
  for (;;) {
    const int64_t now = RealNanos(), left = (until->tv_sec - OffSeconds()) * kNanos + until->tv_nsec - now;
    const int64_t end = now + std::clamp<int64_t>(left, 0, kSlice);
    const timespec slice{end / kNanos, end % kNanos};
    const long result = real(number, a[0], a[1], a[2], &slice, a[4], a[5]);
    if (result == 0 || errno != ETIMEDOUT || left <= kSlice) return result;
  }
}

}  // extern "C"
