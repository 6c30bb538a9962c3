// One partition of a job: its rows, blocks, watermarks and done set behind one lock.
#ifndef SHOAL_SERVER_STORE_PARTITION_H_
#define SHOAL_SERVER_STORE_PARTITION_H_

#include <atomic>
#include <cstdint>
#include <memory>
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
#include "server/store/sparse_table.h"

namespace shoal {

// Where a push stands: records [begin, end) of a split under a lease.
struct PushRange {
  uint64_t split = 0;  // number over all passes: pass * splits + split
  uint64_t lease = 0;
  uint64_t begin = 0;
  uint64_t end = 0;
  bool end_of_split = false;
  uint64_t examples = 0;
};

// One partition's share of a push.
struct PartitionGradients {
  std::vector<RowGradients> rows;
  const float* dense = nullptr;  // null: none
};

struct PushVerdict {
  PushOutcome outcome = PushOutcome::kAccepted;
  uint64_t watermark = 0;
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

  // Raises the lease seen for the split and returns its watermark (kSplitDone when done). kFenced: an older lease;
  // kStaleMap: closed.
  RequestOutcome Open(uint64_t split, uint64_t lease, uint64_t* watermark);

  // From Close to Reopen every Open and Push answers kStaleMap: whoever began before the partition left this server, or
  // before it was frozen, can change nothing afterwards. Reads go on.
  void Close();
  void Reopen();

  // Copies rows: out[t] receives |keys| x dim of tables[t].
  void ReadRows(absl::Span<const uint64_t> keys, absl::Span<const uint32_t> tables, float* const* out) const;
  void ReadDense(float* out) const;

  // Decides by the table of SEMANTICS section 1 and, when it is kAccepted, applies everything.
  PushVerdict Push(const PushRange& range, const PartitionGradients& gradients, PushTally* tally);
  // Only decides.
  PushVerdict Judge(const PushRange& range) const;
  // Upper bound of the bytes that an accepted push would add; 0 when it would not be accepted.
  uint64_t GrowthBytes(const PushRange& range, const PartitionGradients& gradients) const;

  // bsp: applies gradients that were summed over a round of `examples`, then advances by each range.
  void ApplyRound(absl::Span<const PushRange> ranges, const PartitionGradients& gradients, uint64_t examples,
                  PushTally* tally);

  // Everything but rounds_applied.
  PartitionDone Done() const;
  // May be as old as the last push that is under way.
  PartitionLoad Usage() const;
  // Appends the partition's section; *done is its progress at the same instant.
  PartEntry Save(uint64_t rounds_applied, std::string* out, PartitionDone* done) const;
  // Fills an empty partition. INVALID_ARGUMENT or DATA_LOSS say what does not fit.
  absl::Status Load(absl::string_view section, const PartHeader& header, const PartEntry& entry,
                    uint64_t* rounds_applied);
  // Adds to sums: tables, then tensors.
  void AddDigests(absl::Span<DigestSum> sums) const;

 private:
  class Loader;
  struct OpenState {
    uint64_t lease = 0;
    uint64_t watermark = 0;
  };

  PushVerdict JudgeLocked(const PushRange& range) const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  PartitionDone DoneLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  uint64_t BytesLocked() const ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Advance(const PushRange& range) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Step(const PartitionGradients& gradients, uint64_t examples, PushTally* tally)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);

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
  uint64_t pushes_ ABSL_GUARDED_BY(mu_) = 0;  // accepted
  // What Usage says while the lock is taken.
  mutable std::atomic<uint64_t> usage_bytes_{0}, usage_pushes_{0};
};

}  // namespace shoal

#endif  // SHOAL_SERVER_STORE_PARTITION_H_
