// Keeps the copies of some partitions on one backup server in step, and tells when they are.
#ifndef SHOAL_SERVER_REPLICATION_REPLICA_STREAM_H_
#define SHOAL_SERVER_REPLICATION_REPLICA_STREAM_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/optional.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "proto/replication.pb.h"
#include "server/replication/bulk_copy.h"
#include "server/replication/room.h"
#include "server/store/partition.h"

namespace shoal {

// A version of a partition that a copy must have reached.
struct ReplicaMark {
  uint32_t partition = 0;
  uint64_t version = 0;
};

// Group commit: one message is under way at a time, and carries what changed in all partitions since the one before.
// Thread-safe. Callbacks run without the lock, on the thread that made them possible.
class ReplicaStream : public std::enable_shared_from_this<ReplicaStream> {
 public:
  using Done = std::function<void(absl::Status)>;

  // `next_link` makes numbers of links; `patience`: how long Await waits.
  ReplicaStream(ReplicaSender sender, std::function<uint64_t()> next_link, const Clock* clock, absl::Duration patience)
      : sender_(std::move(sender)), next_link_(std::move(next_link)), clock_(*clock), patience_(patience) {}

  uint64_t target() const { return sender_.target; }

  // Follows a partition whose copy has `version` and whose later changes `tracker` remembers. `room`: of the answer
  // that said so.
  void Attach(std::shared_ptr<Partition> partition, TrackerId tracker, uint64_t link, uint64_t version,
              const ReplicaRoom& room);
  // Ends that. Who waits is told `status`. Nothing when the partition is not followed.
  void Detach(uint32_t partition, const absl::Status& status);

  // Calls `done` when all copies have reached their mark; at once when they have. UNAVAILABLE: not in time, or one is
  // not followed any more; RESOURCE_EXHAUSTED: the backup has no memory. Either way the changes are sent later.
  void Await(const std::vector<ReplicaMark>& marks, Done done);
  // Before a push is applied: whether the backup has a limit, and RESOURCE_EXHAUSTED, nothing taken and the backup
  // asked for more, when it has no room for so many bytes; UNAVAILABLE when it does not answer, either. What is taken
  // is given back when all copies have reached these marks; those of partitions that are not followed count as reached.
  bool limited() const;
  absl::Status TakeRoom(uint64_t bytes);
  bool TryTakeRoom(uint64_t bytes);  // asks for nothing
  void PinRoom(uint64_t bytes, const std::vector<ReplicaMark>& marks);

  // Since when messages have been sent in vain; nothing: they are answered.
  struct Silence {
    absl::Duration since;
    std::string error;
  };
  absl::optional<Silence> silence() const;

  // Repeats what failed and ends waits that took too long. Called about every 100 ms.
  void Tick();

 private:
  struct Waiter {
    size_t missing = 0;  // marks
    absl::Duration deadline;
    Done done;  // empty: has been told
  };
  struct Wanted {
    uint64_t version;
    std::shared_ptr<Waiter> waiter;
  };
  struct Followed {
    std::shared_ptr<Partition> partition;
    TrackerId tracker = 0;
    uint64_t link = 0;
    uint64_t acked = 0;    // version that the copy has
    uint64_t wanted = 0;   // version that somebody waits for
    bool restart = false;  // the copy is lost: begin again with all of it
    // The image that is being sent; it stays until the copy has it, because the next one builds on it.
    bool has_image = false, full = false;
    PartitionImage image;
    uint64_t sent = 0;  // bytes of the image that the backup has
    std::deque<Wanted> waiting;
    std::deque<std::pair<uint64_t, std::shared_ptr<RoomBook::Charge>>> charges;  // until it has this version
  };
  struct Told {
    Done done;
    absl::Status status;
  };
  // What a message carried of a partition.
  struct Part {
    uint32_t partition;
    uint64_t link;
    uint64_t version;
    uint64_t end;  // offset behind it
  };

  void Pump();
  // False when there is nothing to send.
  bool Build(ReplicaRequest* request, std::vector<Part>* parts) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void TakeImage(Followed* followed) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Handle(const absl::StatusOr<ReplicaReply>& reply, const std::vector<Part>& parts, uint64_t wanted_room,
              uint64_t era);
  void Reached(Followed* followed, std::vector<Told>* told) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Of versions up to this one.
  void ReturnRoom(Followed* followed, uint64_t version) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Fail(Followed* followed, const absl::Status& status, std::vector<Told>* told) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Refused(Followed* followed, const PieceAnswer& answer, std::vector<Told>* told)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const ReplicaSender sender_;
  const std::function<uint64_t()> next_link_;
  const Clock& clock_;
  const absl::Duration patience_;
  mutable Mutex mu_;
  absl::optional<Silence> silence_ ABSL_GUARDED_BY(mu_);
  std::map<uint32_t, Followed> followed_ ABSL_GUARDED_BY(mu_);
  bool in_flight_ ABSL_GUARDED_BY(mu_) = false;
  RoomBook room_ ABSL_GUARDED_BY(mu_);
  uint64_t era_ ABSL_GUARDED_BY(mu_) = 0;                                // how often nothing was followed any more
  uint64_t wanted_room_ ABSL_GUARDED_BY(mu_) = 0;                        // 0: there was enough
  absl::Duration retry_at_ ABSL_GUARDED_BY(mu_) = absl::ZeroDuration();  // nothing is sent before
  std::string last_error_ ABSL_GUARDED_BY(mu_);
};

}  // namespace shoal

#endif  // SHOAL_SERVER_REPLICATION_REPLICA_STREAM_H_
