#include "base/side_by_side.h"

#include <algorithm>
#include <system_error>
#include <thread>
#include <vector>

#include "absl/time/time.h"
#include "base/mutex.h"

namespace shoal {
namespace {

// Threads that wait look again after this; they are woken before.
constexpr absl::Duration kLook = absl::Seconds(1);

// What the threads share. Thread-safe.
class Queue {
 public:
  Queue(size_t count, uint64_t most_bytes, absl::FunctionRef<uint64_t(size_t)> bytes)
      : count_(count), most_bytes_(most_bytes), bytes_(bytes) {}

  // False: nothing is left to be started. *bytes is to be given to End.
  bool Begin(size_t* item, uint64_t* bytes) {
    MutexLock lock(&mu_);
    for (;;) {
      if (next_ == count_ || !status_.ok()) return false;
      *bytes = bytes_(next_);
      if (under_way_ == 0 || (*bytes <= most_bytes_ && held_ <= most_bytes_ - *bytes)) break;
      ended_.WaitFor(&mu_, kLook);
    }
    *item = next_++;
    ++under_way_;
    held_ += *bytes;
    return true;
  }
  void End(uint64_t bytes, const absl::Status& status) {
    MutexLock lock(&mu_);
    --under_way_;
    held_ -= bytes;
    status_.Update(status);
    ended_.SignalAll();
  }
  absl::Status status() const {
    MutexLock lock(&mu_);
    return status_;
  }

 private:
  const size_t count_;
  const uint64_t most_bytes_;
  const absl::FunctionRef<uint64_t(size_t)> bytes_;
  mutable Mutex mu_;
  CondVar ended_;
  size_t next_ ABSL_GUARDED_BY(mu_) = 0;
  size_t under_way_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t held_ ABSL_GUARDED_BY(mu_) = 0;  // bytes of those
  absl::Status status_ ABSL_GUARDED_BY(mu_);
};

}  // namespace

absl::Status SideBySide(size_t count, uint32_t at_once, uint64_t most_bytes, absl::FunctionRef<uint64_t(size_t)> bytes,
                        absl::FunctionRef<absl::Status(size_t)> work) {
  Queue queue(count, most_bytes, bytes);
  const auto run = [&] {
    size_t item;
    uint64_t held;
    while (queue.Begin(&item, &held)) queue.End(held, work(item));
  };
  std::vector<std::thread> helpers;
  try {
    for (size_t t = 1; t < std::min<size_t>(count, at_once); ++t) helpers.emplace_back(run);
  } catch (const std::system_error&) {
    // The system gives no more threads: fewer do it, too.
  }
  run();
  for (std::thread& helper : helpers) helper.join();
  return queue.status();
}

}  // namespace shoal
