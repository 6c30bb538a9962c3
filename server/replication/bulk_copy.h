// Sends one copy of a partition to another server, piece by piece, and waits.
#ifndef SHOAL_SERVER_REPLICATION_BULK_COPY_H_
#define SHOAL_SERVER_REPLICATION_BULK_COPY_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "proto/replication.pb.h"
#include "server/replication/replica_client.h"

namespace shoal {

// What a sender says of itself in every message.
struct ReplicaSender {
  uint64_t job = 0;
  uint64_t run = 0;
  uint64_t source = 0;
  uint64_t target = 0;
  std::shared_ptr<ReplicaClient> client;
  std::function<uint64_t()> map_version;  // of the moment

  ReplicaRequest NewRequest() const;
};

// What a server has for the copies of this one, as of one of its answers.
struct ReplicaRoom {
  bool limited = false;
  uint64_t bytes = 0;
};

// Not thread-safe; blocks its caller. Distinct copies, of other partitions, may be under way beside it.
class BulkCopy {
 public:
  struct Options {
    absl::Duration patience = absl::Seconds(5);  // without an answer that moves it on
    std::function<absl::Status()> keep_going;    // a bad status ends the copy
    std::function<JobConfig()> config;           // for a target that does not have the job
  };
  BulkCopy(ReplicaSender sender, uint32_t partition, uint64_t link, Options options)
      : sender_(std::move(sender)), partition_(partition), link_(link), options_(std::move(options)) {}

  // `held` may be null. Returns when the target has applied the image.
  absl::Status Send(absl::string_view image, uint64_t version, bool full, bool promotable, const HeldRounds* held);
  // Tells the target, once, that the copy is not wanted any more; it may not hear of it.
  void Forget();
  uint64_t sent_bytes() const { return sent_bytes_; }
  const ReplicaRoom& room() const { return room_; }  // of the last answer

 private:
  // Repeats one message until it is answered.
  absl::Status Deliver(ReplicaRequest* request);

  const ReplicaSender sender_;
  const uint32_t partition_;
  const uint64_t link_;
  const Options options_;
  uint64_t sent_bytes_ = 0;
  ReplicaRoom room_;
};

}  // namespace shoal

#endif  // SHOAL_SERVER_REPLICATION_BULK_COPY_H_
