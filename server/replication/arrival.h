// A copy of another server's partition, as far as it has come.
#ifndef SHOAL_SERVER_REPLICATION_ARRIVAL_H_
#define SHOAL_SERVER_REPLICATION_ARRIVAL_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "base/mutex.h"
#include "server/store/partition.h"

namespace shoal {

// Guarded by its lock, which is held while an image is applied: images of one partition come one after the other.
struct Arrival {
  // What is staged and has not been granted counts there while it is; outlives this.
  explicit Arrival(std::atomic<int64_t>* reserved_bytes) : reserved(*reserved_bytes) {}
  ~Arrival() ABSL_NO_THREAD_SAFETY_ANALYSIS { Unstage(); }
  Arrival(const Arrival&) = delete;
  Arrival& operator=(const Arrival&) = delete;

  Mutex mu;
  uint64_t source ABSL_GUARDED_BY(mu) = 0;  // process that sends it
  uint64_t link ABSL_GUARDED_BY(mu) = 0;
  // What is applied. The map of partitions owns it: once it is thrown away there, there is nothing.
  std::weak_ptr<Partition> partition ABSL_GUARDED_BY(mu);
  uint64_t version ABSL_GUARDED_BY(mu) = 0;
  bool promotable ABSL_GUARDED_BY(mu) = false;
  // The image that is coming in.
  bool staging ABSL_GUARDED_BY(mu) = false;
  uint64_t staged_version ABSL_GUARDED_BY(mu) = 0;
  uint64_t staged_total ABSL_GUARDED_BY(mu) = 0;
  std::string staged ABSL_GUARDED_BY(mu);
  int64_t staged_reserved ABSL_GUARDED_BY(mu) = 0;
  std::atomic<int64_t>& reserved;

  void Stage(absl::string_view more, bool granted) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    staged.append(more.data(), more.size());
    if (granted) return;
    staged_reserved += static_cast<int64_t>(more.size());
    reserved += static_cast<int64_t>(more.size());
  }
  void Unstage() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    reserved -= staged_reserved;
    staged_reserved = 0;
    staging = false;
    staged = std::string();
  }
  void Clear() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    partition.reset();
    version = 0;
    promotable = false;
    Unstage();
  }
};

}  // namespace shoal

#endif  // SHOAL_SERVER_REPLICATION_ARRIVAL_H_
