// bsp: the contributions to the round that is next, held until it can be applied.
#ifndef SHOAL_SERVER_ROUNDS_H_
#define SHOAL_SERVER_ROUNDS_H_

#include <cstdint>
#include <memory>
#include <memory_resource>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "proto/replication.pb.h"
#include "proto/wire/parameter_messages.h"
#include "server/store/job_schema.h"
#include "server/store/partition.h"

namespace shoal {

// A deep copy of one logical lane's push. Immutable once it is held.
class Contribution {
 public:
  // `memory` outlives it.
  Contribution(const JobSchema& schema, const PushRequest& request, std::pmr::memory_resource* memory);
  // One partition's share, from another server. REQUIRES: CheckHeld was content.
  Contribution(const JobSchema& schema, uint32_t partition, const HeldLane& held);

  const PushRange& range() const { return range_; }
  uint64_t lane() const { return lane_; }  // its id, not the logical one
  uint64_t reserved_bytes() const { return reserved_bytes_; }
  void set_reserved_bytes(uint64_t bytes) { reserved_bytes_ = bytes; }
  uint64_t floats() const;  // of all gradients
  bool Covers(uint32_t partition) const;
  // Appends this lane's gradients of one partition; returns those of its blocks.
  DenseGradients GradientsOf(uint32_t partition, std::pmr::vector<RowGradients>* rows) const;
  void WriteTo(uint32_t partition, HeldLane* out) const;  // the same, for another server

 private:
  struct Group {
    explicit Group(std::pmr::memory_resource* memory)
        : keys(memory), starts(memory), occurrences(memory), slots(memory) {}

    std::pmr::vector<uint64_t> keys;
    std::pmr::vector<uint64_t> starts;  // by entry of partitions_, and the end
    std::vector<uint32_t> tables;
    std::vector<std::pmr::vector<float>> gradients;  // by table
    std::pmr::vector<uint32_t> occurrences;
    std::pmr::vector<uint16_t> slots;
    uint16_t slot = 0;
  };
  const JobSchema& schema_;
  const PushRange range_;
  const uint64_t lane_;
  uint64_t reserved_bytes_ = 0;
  std::pmr::vector<uint32_t> partitions_;
  std::vector<Group> groups_;
  std::pmr::vector<float> dense_;
  std::pmr::vector<uint64_t> dense_starts_;  // by entry of partitions_
};

// INVALID_ARGUMENT names what does not fit the job.
absl::Status CheckHeld(const JobSchema& schema, uint32_t partition, const HeldRounds& held);

// What each logical lane has handed in for the next round: one contribution, or several that came with partitions which
// were moved here. Not thread-safe: the job's lock guards it.
class Rounds {
 public:
  explicit Rounds(uint32_t lanes, uint64_t applied) : lanes_(lanes), applied_(applied) {}

  uint64_t applied() const { return applied_; }
  bool Held(uint32_t lane) const { return !lanes_[lane].held.empty(); }
  void Hold(uint32_t lane, std::unique_ptr<Contribution> contribution) {
    lanes_[lane].held.push_back(std::move(contribution));
  }
  // mark(round) of a lane. False: the round lies ahead of the one that is next, which no server can have acknowledged.
  bool Mark(uint32_t lane, uint64_t round);
  // The lane has this many rounds in all.
  void Finish(uint32_t lane, uint64_t rounds) { lanes_[lane].rounds = rounds; }
  // True when every lane that takes part in the next round has handed in and marked it, and somebody takes part.
  bool Ready() const;
  // True when no lane has a further round.
  bool Over() const;
  // One contribution of each lane that takes part in the next round, for its range, in order of logical lane.
  // REQUIRES: Ready().
  std::vector<const Contribution*> Next() const;
  // Those that cover a partition, in order of logical lane.
  void NextFor(uint32_t partition, std::vector<const Contribution*>* out) const;
  uint64_t reserved_bytes() const;  // of all that is held

  // What is held for a partition that leaves, and Arrive at its new server. A lane counts there only when it covers all
  // partitions (Keep): then, and only then, may all servers have acknowledged its push.
  HeldRounds Leave(uint32_t partition) const;
  void Arrive(const JobSchema& schema, uint32_t partition, const HeldRounds& held);
  // Drops what does not cover all of `partitions`, for its lane to hand in again. Returns the bytes reserved for it.
  uint64_t Keep(absl::Span<const uint32_t> partitions);
  // The next round is applied: forgets its contributions and marks.
  void Advance();

 private:
  struct Lane {
    std::vector<std::unique_ptr<Contribution>> held;
    bool marked = false;
    std::optional<uint64_t> rounds;  // in all, once announced
  };
  bool TakesPart(const Lane& lane) const { return !lane.rounds.has_value() || applied_ < *lane.rounds; }

  std::vector<Lane> lanes_;
  uint64_t applied_;
};

// Sums the gradients of one partition over contributions, per key and table in their order: bit for bit what a loop
// over the lanes would add. Not thread-safe; reuse it, its buffers grow to the largest partition.
class RoundFold {
 public:
  explicit RoundFold(const JobSchema& schema) : schema_(schema), tables_(schema.tables.size()) {}
  // Valid until the next call.
  const PartitionGradients& Fold(uint32_t partition, absl::Span<const Contribution* const> contributions);

 private:
  struct TableSum {
    std::vector<uint64_t> keys;
    std::vector<float> sums;
    std::vector<uint32_t> occurrences;
    std::vector<uint16_t> slots;
    absl::flat_hash_map<uint64_t, size_t> at;  // key -> position
  };
  void Add(const RowGradients& rows);

  const JobSchema& schema_;
  std::vector<TableSum> tables_;
  std::vector<float> dense_;
  std::pmr::vector<RowGradients> rows_;
  PartitionGradients folded_;
};

}  // namespace shoal

#endif  // SHOAL_SERVER_ROUNDS_H_
