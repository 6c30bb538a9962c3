// One job on one server: its partitions, live lanes, gates and rounds.
#ifndef SHOAL_SERVER_SERVER_JOB_H_
#define SHOAL_SERVER_SERVER_JOB_H_

#include <atomic>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/optional.h"
#include "base/mutex.h"
#include "server/job_events.h"
#include "server/live_lanes.h"
#include "server/owner_map.h"
#include "server/parameter_server.h"
#include "server/refused_log.h"
#include "server/replication/arrival.h"
#include "server/replication/room.h"
#include "server/request_checks.h"
#include "server/round_step.h"
#include "server/rounds.h"
#include "server/store/partition.h"

namespace shoal {

class BackgroundWriter;

// Thread-safe. Locks: mu_ (membership, gates, rounds) before a partition's; callbacks run with neither held. asp and
// ssp pushes hold one partition's lock at a time and mu_ only to be admitted; a bsp round is applied under mu_, because
// no lane of the job can do anything before it is done.
class ServerJob : public std::enable_shared_from_this<ServerJob> {
 public:
  using Done = ParameterServer::Done;
  static absl::StatusOr<std::shared_ptr<ServerJob>> Create(const ParameterServerOptions& options,
                                                           const JobConfig& config, const JobView& view, uint64_t self);

  uint64_t run() const { return run_; }
  // The incarnation of the server that the job's partitions belong to.
  uint64_t self() const { return self_; }
  // MOVE_PARTITIONS: copies the partitions to the target while they are served, then freezes them and sends what
  // changed meanwhile. They stay frozen until a map gives them to the target or the task is no longer listed. On an
  // error all are served again. *report: for people, how long and how much.
  absl::Status Move(uint64_t task, const std::vector<uint32_t>& partitions, const ServerAddress& target,
                    std::string* report);
  // ADD_BACKUP: copies the partitions to the target and from then on acknowledges their pushes only when it has them.
  absl::Status AddBackup(uint64_t task, const std::vector<uint32_t>& partitions, const ServerAddress& target,
                         std::string* report);
  // The receiving side of both.
  absl::Status Receive(const ReplicaRequest& request, ReplicaReply* reply);
  std::vector<uint32_t> Mine() const;  // the partitions that the map gives to this server
  // Makes these partitions, or loads them from a checkpoint directory, several at a time, then serves them. One that is
  // here already stays as it is. FAILED_PRECONDITION: the map gives one to another server.
  absl::Status Restore(const std::vector<uint32_t>& partitions, const std::string& path);
  // What the last Restore loaded, for people; empty: nothing since it was last asked for.
  std::string TakeLoadNote();
  void UpdateView(const JobNews& news);
  // Answers parked pulls with CANCELLED and refuses all later calls.
  void Drop();

  void OpenSplit(const OpenSplitRequest& request, OpenSplitReply* reply, const Done& done);
  absl::StatusOr<PullSizes> SizePull(const PullRequest& request) const;
  void Pull(const PullRequest* request, absl::Duration timeout, PullReply* reply, Done done);
  absl::StatusOr<RequestOutcome> Welcome(const RequestHeader& header) const;  // what calls with it are answered
  void Push(const PushRequest& request, PushReply* reply, const Done& done);
  void Mark(const MarkRequest& request, MarkReply* reply, const Done& done);
  void Tick();

  std::vector<PartitionDone> ReportDone() const;
  absl::StatusOr<PartInfo> WritePart(const CheckpointTask& task, absl::Duration timeout);
  std::vector<TableDigest> Digest() const;
  ServerJobReport Report() const;
  void AddUnreachable(std::map<uint64_t, Unreachable>* out) const;  // backups that have not answered for a second

 private:
  struct Copying;  // a partition on its way to another server

  ServerJob(const ParameterServerOptions& options, const JobConfig& config, std::shared_ptr<const JobSchema> schema,
            uint64_t self);
  absl::Status Fill(const JobView& view);
  std::shared_ptr<const OwnerMap> Map() const;
  // Fills `partitions`, which nobody else sees yet, from the checkpoint at `path`; *rounds: at which it was cut.
  absl::Status LoadAll(const std::string& path, const std::vector<std::shared_ptr<Partition>>& partitions,
                       uint64_t* rounds);
  // Fills new ones with what the job takes from another job.
  absl::Status BeginWarm(const std::vector<std::shared_ptr<Partition>>& partitions);
  void SetLoadNote(std::string note);
  absl::Status Install(std::vector<std::shared_ptr<Partition>> partitions, uint64_t rounds);
  PartHeader Header() const;
  // Refuses or replaces the map of partitions.
  absl::Status TakeMap(const JobView& view, ReleasedList* released) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Replaces the map; opens and closes partitions by it.
  void SetMap(std::shared_ptr<const OwnerMap> map, ReleasedList* released) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Tasks that are no longer listed are given up or done: what is frozen and still ours serves again, backups that no
  // map names are left.
  void EndTasks(const std::set<uint64_t>& tasks, ReleasedList* released) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // Older runs and removed lanes are fenced; a bad status: a newer run than ours, or dropped.
  absl::StatusOr<RequestOutcome> Admit(const RequestHeader& header) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool GateOpen(const PullRequest& request) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Stamp(PullReply* reply) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Moves pulls that can be answered now to `released`.
  void Release(ReleasedList* released) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Answer(ReleasedList* released);
  void Serve(const PullRequest& request, PullReply* reply, const Done& done);
  absl::Status Gather(const OwnerMap& map, const PullRequest& request, PullReply* reply) const;
  // bsp, where all partitions are here: the tensors as they are until the next round is applied. Null: to be copied.
  std::shared_ptr<const TensorValues> Share(const PullRequest& request) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  // *marks: what backups must have before the push is acknowledged.
  absl::Status PushNow(const PushRequest& request, const KeyHashes& hashes, PushReply* reply,
                       std::vector<ReplicaMark>* marks);
  void AwaitBackups(const std::vector<ReplicaMark>& marks, const Done& done);
  absl::Status PushRound(const PushRequest& request, PushReply* reply, ReleasedList* released);
  absl::Status JudgeRound(const PushRequest& request, PushReply* reply, bool* hold) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Reserves the bytes that new rows may need; RESOURCE_EXHAUSTED: the hard limit.
  absl::Status Reserve(const PushRequest& request, const OwnerMap& map, uint64_t* reserved);
  uint64_t QuickBound(const PushRequest& request) const;
  absl::Status TakeMark(uint32_t lane, uint64_t round) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Applies rounds while they are complete and not held back, and opens what they gate.
  void Proceed(ReleasedList* released) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  bool MayApply() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // bsp, under a new map: what is held for the next round stays if it covers all partitions here; pulls are sent back.
  void Regroup(ReleasedList* released) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // --- Copies on other servers (server_job_move.cc) ---
  absl::StatusOr<ReplicaSender> SenderTo(const ServerAddress& target);
  // A bad status: the task is no longer listed, or the job is gone.
  absl::Status KeepGoing(uint64_t task) const;
  absl::StatusOr<std::vector<Copying>> PlanCopies(uint64_t task, const std::vector<uint32_t>& partitions,
                                                  const ReplicaSender& sender);
  absl::Status SendAll(Copying* copying, bool promotable);
  absl::Status SendChanges(Copying* copying, bool promotable, const HeldRounds* held);
  static void EndCopy(const Copying& copying, bool forget);
  absl::Status Freeze(uint64_t task, const std::vector<Copying>& copies, std::vector<HeldRounds>* held);
  void Thaw(uint64_t task);
  absl::Status Follow(uint64_t task, const Copying& copying, const ReplicaSender& sender);
  // Waits until the backup has the partition as it is now.
  absl::Status AwaitStep(const std::shared_ptr<ReplicaStream>& stream, Partition* partition) const;

  // --- Copies of others' partitions (server_job_receive.cc) ---
  absl::Status TakePiece(const ReplicaRequest& request, const ReplicaPiece& piece);
  absl::Status TakeImage(const ReplicaRequest& request, const ReplicaPiece& piece, Arrival* arrival);
  absl::Status InstallCopy(const ReplicaRequest& request, const ReplicaPiece& piece, const HeldRounds* held,
                           const std::shared_ptr<Partition>& copy);
  void DropCopy(uint32_t partition, const std::shared_ptr<Partition>& copy);
  std::shared_ptr<Partition> StandbyOf(uint32_t partition, const Arrival& arrival) const;  // null: none any more
  void SweepArrivals();  // frees what came of images whose sender is not the owner any more
  bool Fits() const;

  // Waits for the round of the task (bsp) and keeps later ones back until ReleaseRound; *cut is that round.
  absl::Status HoldRound(const CheckpointTask& task, absl::Duration timeout, uint64_t* cut);
  void ReleaseRound(uint64_t cut);
  absl::Status CopyPartitions(const CheckpointTask& task, const OwnerMap& map, uint64_t rounds, absl::Duration timeout,
                              BackgroundWriter* writer, PartInfo* info) const;

  const ParameterServerOptions options_;
  const JobConfig config_;  // for servers that need the job to take a partition over
  const std::shared_ptr<const JobSchema> schema_;
  const uint64_t self_;
  uint64_t job_ = 0;  // set once, in Fill
  uint64_t run_ = 0;
  StoreStats stats_;
  RefusedLog refused_;
  std::vector<std::unique_ptr<SlabPool>> pools_;  // by table
  std::atomic<uint64_t> pushes_{0};

  mutable Mutex mu_;
  CondVar round_applied_;
  bool dropped_ ABSL_GUARDED_BY(mu_) = false;
  uint64_t newest_run_ ABSL_GUARDED_BY(mu_) = 0;
  uint64_t news_ ABSL_GUARDED_BY(mu_) = 0;                                // sequence of the newest view
  std::shared_ptr<const std::set<uint64_t>> tasks_ ABSL_GUARDED_BY(mu_);  // of the newest view; null: unknown
  std::string load_note_ ABSL_GUARDED_BY(mu_);
  std::string map_warning_ ABSL_GUARDED_BY(mu_);  // why the newest map was not taken
  std::shared_ptr<const OwnerMap> map_ ABSL_GUARDED_BY(mu_);
  std::shared_ptr<SharedTensors> tensors_ ABSL_GUARDED_BY(mu_);  // of all partitions of map_; null: not shared
  LiveLanes lanes_ ABSL_GUARDED_BY(mu_);
  std::list<ParkedPull> parked_ ABSL_GUARDED_BY(mu_);
  Rounds rounds_ ABSL_GUARDED_BY(mu_);
  RoundStep round_step_ ABSL_GUARDED_BY(mu_);
  absl::optional<uint64_t> hold_ ABSL_GUARDED_BY(mu_);        // rounds from here on are not applied
  size_t frozen_ ABSL_GUARDED_BY(mu_) = 0;                    // partitions of the map
  std::map<uint32_t, HeldRounds> held_ ABSL_GUARDED_BY(mu_);  // bsp: what came with standbys
  std::map<uint64_t, std::shared_ptr<ReplicaClient>> clients_ ABSL_GUARDED_BY(mu_);  // by process
  std::map<uint64_t, std::shared_ptr<ReplicaStream>> streams_ ABSL_GUARDED_BY(mu_);  // by process of the backup
  std::atomic<uint64_t> next_link_{1};
  Mutex arrivals_mu_;  // taken by itself
  std::map<uint32_t, std::shared_ptr<Arrival>> arrivals_ ABSL_GUARDED_BY(arrivals_mu_);
  RoomGrants grants_;
  std::vector<uint64_t> cuts_ ABSL_GUARDED_BY(mu_);  // of checkpoints: rounds from the smallest on are not applied
};

}  // namespace shoal

#endif  // SHOAL_SERVER_SERVER_JOB_H_
