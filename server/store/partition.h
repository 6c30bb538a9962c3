// One partition of a job: its rows, blocks, watermarks and done set behind one lock.
#ifndef SHOAL_SERVER_STORE_PARTITION_H_
#define SHOAL_SERVER_STORE_PARTITION_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <memory_resource>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/types/span.h"
#include "base/done_set.h"
#include "base/mutex.h"
#include "proto/scheduler.pb.h"
#include "proto/wire/parameter_messages.h"
#include "server/checkpoint/part_format.h"
#include "server/store/dense_blocks.h"
#include "server/store/partition_requests.h"
#include "server/store/sparse_table.h"

namespace shoal {

// A partition as bytes that a copy of it elsewhere takes over (Partition::Apply): all of it, or what changed. They
// carry a checksum, and the version that a delta starts from, so that none is applied twice, too late or to something
// else.
struct PartitionImage {
  std::string bytes;
  uint64_t version = 0;  // of the partition at that instant
  PartitionDone done;    // its progress at the same instant
};

// What a table's rows hash to (TableDigest).
struct DigestSum {
  uint64_t sum = 0;
  uint64_t rows = 0;
};

// The authority over what is applied. Thread-safe: each method takes the lock once, so each is atomic.
class Partition {
 public:
  // `pools` by table; everything must outlive the partition.
  Partition(const JobSchema& schema, uint32_t id, absl::Span<const std::unique_ptr<SlabPool>> pools, StoreStats* stats);

  uint32_t id() const { return id_; }
  StoreStats* stats() const { return stats_; }
  // Grows with every change: pushes that are accepted, leases that are raised, rounds.
  uint64_t version() const;

  // Raises the lease seen for the split and returns its watermark (kSplitDone when done). kFenced: an older lease;
  // kStaleMap: closed.
  RequestOutcome Open(uint64_t split, uint64_t lease, uint64_t* watermark);

  // From Close to Reopen every Open and Push answers kStaleMap: whoever began before the partition left this server, or
  // before it was frozen, can change nothing afterwards. Reads go on.
  void Close();
  void Reopen();
  // From now on the verdicts of pushes say that a backup is to be waited for. Returns the version that what was pushed
  // before does not exceed.
  uint64_t Mirror(bool mirrored);

  // Copies rows. Those of one partition are adjacent, and read at one instant. `scratch`: memory until it returns.
  static void ReadRows(absl::Span<const RowsRead> reads,
                       std::pmr::memory_resource* scratch = std::pmr::get_default_resource());
  // Floats [begin, begin + count) of its dense blocks, one after the other. REQUIRES: there are as many.
  void ReadDense(uint64_t begin, uint64_t count, float* out) const;
  // Each dense block into its place of the tensors.
  void ReadDense(absl::Span<float* const> tensors) const;
  // Keeps the weights of its dense blocks there from now on.
  void MoveDense(const std::shared_ptr<SharedTensors>& shared);

  // Each partition decides by the table of docs/semantics.md section 1 and, when it is kAccepted, applies everything.
  static void Push(const PushRange& range, absl::Span<PartitionPush> pushes, PushTally* tally,
                   std::pmr::memory_resource* scratch = std::pmr::get_default_resource());
  PushVerdict Push(const PushRange& range, const PartitionGradients& gradients, PushTally* tally);
  // The same, and under the same lock TakeDelta; *delta stays as it is when nothing changed.
  PushVerdict Push(const PushRange& range, const PartitionGradients& gradients, PushTally* tally, TrackerId tracker,
                   PartitionImage* delta);
  // Only decides.
  PushVerdict Judge(const PushRange& range) const;
  // Upper bound of the bytes that an accepted push would add; 0 when it would not be accepted.
  uint64_t GrowthBytes(const PushRange& range, const PartitionGradients& gradients) const;
  // Upper bound of what it would add to the need of any copy of the partition; 0 when it would not be accepted.
  uint64_t NewBytes(const PushRange& range, const PartitionGradients& gradients) const;
  // Of its rows: the bytes that they take, and what they may take in a copy of the partition. A copy that takes less
  // than it may can grow by the difference without anything new in it.
  struct Space {
    uint64_t used = 0, need = 0;
  };
  Space RowSpace() const;

  // bsp: applies gradients that were summed over a round of `examples`, then advances by each range.
  void ApplyRound(absl::Span<const PushRange> ranges, const PartitionGradients& gradients, uint64_t examples,
                  PushTally* tally);

  // Everything but rounds_applied.
  PartitionDone Done() const;
  // May be as old as the last push that is under way.
  PartitionLoad Usage() const;

  // Remembers what changes from now on, until Untrack. Several at once; each costs a bit per row, and a push the
  // setting of those of its rows.
  TrackerId Track();
  void Untrack(TrackerId tracker);  // unknown ones too
  // All of it. `tracker` (may be null): Track() at the same instant.
  PartitionImage TakeFull(uint64_t rounds_applied, TrackerId* tracker);
  // What changed since Track or since it was last taken, at a cost that goes with the number of keys that changed; the
  // mark moves to now. A tracker that is gone: all of it.
  PartitionImage TakeDelta(TrackerId tracker, uint64_t rounds_applied);

  // Appends the partition's section; *done is its progress at the same instant.
  PartEntry Save(uint64_t rounds_applied, std::string* out, PartitionDone* done) const;
  // The partition's section of checkpoint `name`. Appends what changed since the same copy wrote that of checkpoint
  // `parent`; all of it when it did not (it was elsewhere then, or `parent` is empty). The marks of these two are kept:
  // the next checkpoint builds on whichever of them became complete.
  PartEntry SaveDelta(const std::string& parent, const std::string& name, uint64_t rounds_applied, std::string* out,
                      PartitionDone* done);

  // Fills an empty partition, or applies a delta (entry.delta) to what was loaded so far. INVALID_ARGUMENT or DATA_LOSS
  // say what does not fit, FAILED_PRECONDITION that it is not its turn; the partition is to be thrown away then.
  // REQUIRES: it is not serving. Trackers are gone afterwards.
  absl::Status Load(absl::string_view section, const PartHeader& header, const PartEntry& entry,
                    uint64_t* rounds_applied);
  // Warm start of a new partition: puts a row or a block of another job in it. Weights alone: with fresh optimizer
  // state. false: the key is there already; INVALID_ARGUMENT: the block has another shape. REQUIRES: it does not serve.
  bool AdoptRow(uint32_t table, uint64_t key, uint32_t slot, absl::Span<const float> values, PushTally* tally);
  absl::Status AdoptBlock(const PartBlock& block, bool with_state);
  // Load of an image that another copy took. FAILED_PRECONDITION, and nothing changed, unless it is closed.
  absl::Status Apply(absl::string_view image, uint64_t* rounds_applied);
  // Adds to sums: tables, then tensors.
  void AddDigests(absl::Span<DigestSum> sums) const;

 private:
  class Loader;
  friend class RowStream;
  struct OpenState {
    uint64_t lease = 0;
    uint64_t watermark = 0;
  };
  using Trackers = absl::flat_hash_map<TrackerId, uint64_t>;  // id -> version at its mark

  PushVerdict JudgeLocked(const PushRange& range) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  PartitionDone DoneLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  uint64_t BytesLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  PushVerdict PushLocked(const PushRange& range, absl::Span<const RowGradients> rows, const DenseGradients& dense,
                         RowStream* stream, PushTally* tally) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void UntrackLocked(TrackerId tracker) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  TrackerId TrackLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Appends all, or what changed since `since`.
  PartEntry Write(const Trackers::value_type* since, uint64_t rounds_applied, std::string* out) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  PartitionImage TakeImage(TrackerId since, uint64_t rounds_applied) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  absl::Status LoadLocked(absl::string_view section, const PartHeader& header, const PartEntry& entry,
                          uint64_t* rounds_applied) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Advance(const PushRange& range) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void AddRuns(absl::Span<const RowGradients> rows, bool locked, std::pmr::vector<RowStream::Run>* runs) const;
  // `stream` is at these rows.
  void Step(absl::Span<const RowGradients> rows, const DenseGradients& dense, uint64_t examples, RowStream* stream,
            PushTally* tally) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

  const JobSchema& schema_;
  const uint32_t id_;
  StoreStats* const stats_;
  mutable Mutex mu_;
  std::vector<std::unique_ptr<SparseTable>> tables_ ABSL_GUARDED_BY(mu_);
  DenseBlocks dense_ ABSL_GUARDED_BY(mu_);
  absl::flat_hash_map<uint64_t, OpenState> open_ ABSL_GUARDED_BY(mu_);
  DoneSet done_ ABSL_GUARDED_BY(mu_);
  uint64_t examples_ ABSL_GUARDED_BY(mu_) = 0;
  bool closed_ ABSL_GUARDED_BY(mu_) = false;
  bool mirrored_ ABSL_GUARDED_BY(mu_) = false;
  uint64_t pushes_ ABSL_GUARDED_BY(mu_) = 0;  // accepted
  // What Usage says while the lock is taken.
  mutable std::atomic<uint64_t> usage_bytes_{0}, usage_pushes_{0};
  uint64_t version_ ABSL_GUARDED_BY(mu_) = 0;
  Trackers trackers_ ABSL_GUARDED_BY(mu_);
  std::map<std::string, TrackerId> checkpoints_ ABSL_GUARDED_BY(mu_);  // by name
  TrackerId next_tracker_ ABSL_GUARDED_BY(mu_) = 1;
};

}  // namespace shoal

#endif  // SHOAL_SERVER_STORE_PARTITION_H_
