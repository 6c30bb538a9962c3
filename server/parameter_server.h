// The core of a server: the partitions of all jobs that it owns, behind plain calls. server/rpc puts it on the network,
// local/ calls it directly.
#ifndef SHOAL_SERVER_PARAMETER_SERVER_H_
#define SHOAL_SERVER_PARAMETER_SERVER_H_

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/buffer_pool.h"
#include "base/clock.h"
#include "proto/checkpoint.pb.h"
#include "proto/scheduler.pb.h"
#include "proto/wire/byte_array.h"
#include "proto/wire/dense_layout.h"
#include "proto/wire/parameter_messages.h"
#include "proto/wire/push_piece.h"
#include "server/replication/replica_client.h"

namespace shoal {

struct ParameterServerOptions {
  std::string name;  // for file names of checkpoint parts and messages
  const Clock* clock = &Clock::Steady();
  ReplicaConnector connect = {};  // to other servers; empty: no moves, no backups
  // How long the copy of a partition may stand still before it is given up.
  absl::Duration copy_patience = absl::Seconds(5);
  // Partitions that are copied at a time, for each task, and the bytes of them that are in memory as images meanwhile
  // (at least one is): while one is on its way the next is made and the one before applied.
  uint32_t copies_at_once = 4;
  uint64_t copy_bytes = uint64_t{512} << 20;
  // How long a push waits for the backup. Lanes ask again after that, until a map without the backup comes.
  absl::Duration backup_patience = absl::Seconds(2);
  // Pieces of large pushes that are not complete yet: how many bytes of them, and how long after the last one came.
  uint64_t staged_bytes = uint64_t{2} << 30;
  absl::Duration staged_patience = absl::Seconds(30);
  // bsp: threads that apply a round, and how many gradients (floats) there must be for each of them.
  uint32_t round_threads = std::max(1u, std::thread::hardware_concurrency());
  uint64_t round_floats = uint64_t{1} << 17;
  // Where messages, contributions to rounds and what a call needs while it works come from.
  std::shared_ptr<BufferPool> buffers = BufferPool::Create(uint64_t{128} << 20);
};

// What a pull's destinations must hold, in floats.
struct PullSizes {
  std::vector<std::vector<uint64_t>> rows;  // by group, by table of the group
  uint64_t dense = 0;
};

// Thread-safe. Calls of the data plane (OpenSplit, Pull, Push, Mark) never block on anything but short locks; a pull
// that may not start yet is parked without a thread and answered by the call that opens its gate.
class ParameterServer {
 public:
  using Done = std::function<void(absl::Status)>;

  explicit ParameterServer(ParameterServerOptions options);
  ~ParameterServer();  // answers parked pulls with CANCELLED

  // --- Jobs and membership, told by the scheduler ---
  // Makes the job's tables for the partitions that `view` gives to process `self`; restore_from: loads them from that
  // checkpoint directory (any number of servers wrote it). OK, and nothing done, when it is there for that run and
  // self.
  absl::Status PrepareJob(const JobConfig& config, const JobView& view, uint64_t self, const std::string& restore_from);
  // RESTORE_PARTITIONS: loads these partitions from a checkpoint directory (empty: begins them anew), then serves them;
  // makes the job if this server does not have it. One that is served already stays as it is.
  absl::Status RestorePartitions(const JobConfig& config, const JobView& view, uint64_t self,
                                 const std::vector<uint32_t>& partitions, const std::string& restore_from);
  // What the last of these two loaded, for the job's log; empty: nothing since it was last asked for.
  std::string TakeLoadNote(uint64_t job);
  // Takes over newer map versions, live sets, holds and the list of this server's tasks. Views come in order. `self`:
  // this incarnation.
  void UpdateView(const ClusterView& view, uint64_t self);
  // The same for one job, when nothing is known of tasks.
  void UpdateView(const JobView& view);
  // Forgets the job; parked pulls get CANCELLED. OK when there is no such job.
  void DropJob(uint64_t job);

  // For the messages of calls to this server.
  BufferPool* buffers() const;

  // --- Data plane. NOT_FOUND: no such job here; INVALID_ARGUMENT: names the field, the value and the bound. ---
  void OpenSplit(const OpenSplitRequest* request, OpenSplitReply* reply, Done done);
  absl::StatusOr<PullSizes> SizePull(const PullRequest& request) const;
  // Destinations in *reply must have the sizes of SizePull. ABORTED when still parked after `timeout`
  // (checked by Tick).
  void Pull(const PullRequest* request, absl::Duration timeout, PullReply* reply, Done done);
  void Push(const PushRequest* request, PushReply* reply, Done done);
  // Keeps a piece, whose bytes are `storage`, until its request is complete: then *whole is that, for the caller to
  // decode and push. Else *reply is the answer. RESOURCE_EXHAUSTED: too much is kept already, again later.
  absl::Status StagePush(const PushPiece& piece, ByteArray storage, std::vector<ByteArray>* whole, PushReply* reply);
  uint64_t StagedBytes() const;
  void Mark(const MarkRequest* request, MarkReply* reply, Done done);
  // Fails parked pulls whose deadline has passed and forgets pieces that wait in vain. Called about every 100 ms by the
  // owner.
  void Tick();

  // Takes over copies of partitions from other servers (proto/replication_service.proto). Idempotent. UNAVAILABLE:
  // again later; NOT_FOUND: again with the job's config; FAILED_PRECONDITION: this copy has come to its end.
  absl::StatusOr<ReplicaReply> Replicate(const ReplicaRequest& request);

  // --- Tasks ---
  // Hands partitions over to another server / makes it their backup. All or nothing; *report is for people.
  absl::Status MovePartitions(const Task& task, std::string* report);
  absl::Status AddBackup(const Task& task, std::string* report);
  absl::StatusOr<std::vector<PartitionDone>> ReportDone(uint64_t job) const;
  // Writes this server's part into <dir>/<name>.tmp/ (made if absent). bsp with cut_at_round: waits (bounded by
  // `timeout`) until exactly cut_round rounds are applied, and holds the next round back until the copy is made.
  absl::StatusOr<PartInfo> WritePart(uint64_t job, const CheckpointTask& task, absl::Duration timeout);
  absl::StatusOr<std::vector<TableDigest>> Digest(uint64_t job) const;
  ServerJobReport Report(uint64_t job) const;
  // Other servers that this one calls in vain.
  std::vector<Unreachable> UnreachableServers() const;
  std::vector<uint64_t> Jobs() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace shoal

#endif  // SHOAL_SERVER_PARAMETER_SERVER_H_
