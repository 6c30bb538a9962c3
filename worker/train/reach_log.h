// Which servers a worker's lanes call in vain.
#ifndef SHOAL_WORKER_TRAIN_REACH_LOG_H_
#define SHOAL_WORKER_TRAIN_REACH_LOG_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "proto/scheduler.pb.h"

namespace shoal {

// Thread-safe. Costs a load per answer while all servers answer.
class ReachLog {
 public:
  explicit ReachLog(const Clock* clock) : clock_(*clock) {}

  // How a call to the server has ended: UNAVAILABLE and DEADLINE_EXCEEDED are no answer.
  void Heard(uint64_t server, const absl::Status& status);
  // Servers that have not answered for a second, though they were called half a minute ago or later.
  std::vector<Unreachable> Report() const;

 private:
  struct Silence {
    absl::Duration since, last_call;
    std::string error;
  };
  const Clock& clock_;
  std::atomic<size_t> silent_{0};
  mutable Mutex mu_;
  std::map<uint64_t, Silence> silences_ ABSL_GUARDED_BY(mu_);
};

}  // namespace shoal

#endif  // SHOAL_WORKER_TRAIN_REACH_LOG_H_
