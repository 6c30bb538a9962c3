// What workers and servers say to each other about parameters, as plain structs: server/store and worker/train see only
// these, whether the message crossed a wire (proto/wire/*_codec) or was a function call (`shoal train`).
// Spans and pointers borrow: they must stay valid until the call's callback has run.
#ifndef SHOAL_PROTO_WIRE_PARAMETER_MESSAGES_H_
#define SHOAL_PROTO_WIRE_PARAMETER_MESSAGES_H_

#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "absl/types/span.h"

namespace shoal {

// Watermark of a partition that has the split in its done set.
inline constexpr uint64_t kSplitDone = std::numeric_limits<uint64_t>::max();

// How values travel where they cross a wire; everywhere else they are floats.
enum class ValueType : uint8_t { kF32 = 0, kBf16 = 1, kF16 = 2 };

// Dense tensors, each whole and in row-major order.
using TensorValues = std::vector<std::vector<float>>;

// Who speaks, about which job, with which view of the cluster.
struct RequestHeader {
  uint64_t job = 0;
  uint64_t run = 0;
  uint64_t map_version = 0;
  // The lane's id: unique in the job and only growing, so it is its own incarnation. 0: outside the live set
  // (evaluation, prediction), read-only pulls only.
  uint64_t lane = 0;
};

// What the server thinks of the request as a whole.
enum class RequestOutcome : uint8_t {
  kOk = 0,
  kStaleMap = 1,  // wrong owner of a partition: nothing done; refresh the map and try again
  kFenced = 2,    // older run, removed lane or older lease: nothing done; drop the lease
};

// What a partition answers to a push (docs/semantics.md section 1; the first matching row wins).
enum class PushOutcome : uint8_t {
  kAccepted = 0,
  kDuplicate = 1,   // counts as success
  kFenced = 2,      // lease id older than seen: drop the lease
  kStaleMap = 3,    // not the owner
  kMisaligned = 4,  // begin < watermark < end: recompute [begin, watermark) and [watermark, end)
  kOutOfOrder = 5,  // begin > watermark: recompute from the watermark
};

// Takes a split: raises the lease id that each partition of this server has seen and reads the watermarks. Idempotent.
struct OpenSplitRequest {
  RequestHeader header;
  uint64_t pass = 0;
  uint64_t split = 0;
  uint64_t lease = 0;
  uint32_t logical_lane = 0;  // bsp only
};

struct OpenSplitReply {
  RequestOutcome outcome = RequestOutcome::kOk;
  uint64_t map_version = 0;
  // The distinct watermarks of the server's partitions, ascending; kSplitDone for those that are done.
  std::vector<uint64_t> watermarks;
  // ssp, asp: the slowest live clock before this lane joined (0 when there is none).
  uint64_t slowest_clock = 0;
  uint64_t rounds_applied = 0;  // bsp
};

// One group of keys (KeyGroup) as far as one server is concerned: keys grouped by partition.
struct PullGroup {
  absl::Span<const uint64_t> keys;
  absl::Span<const uint32_t> counts;  // keys by entry of `partitions`
  absl::Span<const uint32_t> tables;  // whose rows are wanted
  // By table: floats of a row, as the memory behind the reply's pointers has room for. Set by the sender (a client that
  // crosses a wire refuses the call without them); not sent, so empty at the server.
  absl::Span<const uint32_t> dims = {};
};

// Reads rows. Never changes state besides the clocks of the gate. Idempotent.
struct PullRequest {
  RequestHeader header;
  bool read_only = false;  // no gate
  // ssp, asp: the lane's batch index that these rows are for, and how many batches it has finished.
  uint64_t batch = 0;
  uint64_t finished = 0;
  // bsp: the round that these rows are for, and (has_mark) mark(round - 1): every server has acknowledged the push.
  uint32_t logical_lane = 0;
  uint64_t round = 0;
  bool has_mark = false;
  absl::Span<const uint32_t> partitions;  // ascending, all owned by the server as far as the sender knows
  std::vector<PullGroup> groups;
  bool dense = true;  // also all dense blocks of `partitions` ...
  // ... or of their floats, one block after the other, only [dense_begin, dense_begin + dense_count); a count of 0: to
  // the end.
  uint64_t dense_begin = 0;
  uint64_t dense_count = 0;
  ValueType value_type = ValueType::kF32;  // of the reply
  // Not sent: the tensors may be read where the server keeps them (PullReply.shared).
  bool share = false;
};

struct PullReply {
  RequestOutcome outcome = RequestOutcome::kOk;
  uint64_t map_version = 0;
  uint64_t slowest_clock = 0;   // of the live lanes when the gate opened
  uint64_t pushes_applied = 0;  // counter of the server; comes back with the push
  uint64_t parked_us = 0;       // how long the request waited for its gate, in microseconds
  // Destinations, set by the caller before the call: by group, by table of the group, |keys| x dim floats ...
  std::vector<std::vector<float*>> rows;
  // ... and the dense blocks of `partitions`: in order of partition, then of block (DenseLayout). May be null if empty.
  float* dense = nullptr;
  uint64_t dense_floats = 0;  // room behind `dense`, set by the caller
  // Instead, where server and caller have one memory: by tensor, where all of it is; blocks are put in their places.
  absl::Span<float* const> tensors = {};
  // The answer to `share`; null: the tensors were copied. They do not change while this is held. Let go of it before
  // the push: what is being read when a round is applied must be copied first.
  std::shared_ptr<const TensorValues> shared = {};
};

struct PushGroup {
  absl::Span<const uint64_t> keys;    // unique
  absl::Span<const uint32_t> counts;  // keys by entry of `partitions`
  absl::Span<const uint32_t> tables;
  std::vector<const float*> gradients;  // by table: |keys| x dim sums over the batch
  // By key: how often it occurred in the batch; empty when the job has no admission.
  absl::Span<const uint32_t> occurrences;
  absl::Span<const uint32_t> dims = {};  // by table: floats of a row, as the sender has them
  // By key: the slot that it came from, an index into FeatureSchema.slots; empty: `slot` for all.
  absl::Span<const uint16_t> slots = {};
  uint16_t slot = 0;
};

// Applies one batch's gradients to the partitions listed. Safe to repeat: a repeat answers kDuplicate.
struct PushRequest {
  RequestHeader header;
  uint64_t pass = 0;
  uint64_t split = 0;
  uint64_t lease = 0;
  uint64_t begin = 0;  // record numbers [begin, end)
  uint64_t end = 0;
  bool end_of_split = false;
  uint64_t examples = 0;      // good records among them
  uint32_t logical_lane = 0;  // bsp only
  uint64_t round = 0;         // bsp only
  ValueType value_type = ValueType::kF32;
  // Partitions covered, touched or not, ascending. Each partition's contribution lies whole in one message.
  absl::Span<const uint32_t> partitions;
  std::vector<PushGroup> groups;
  // Dense gradients of the blocks of `partitions` in DenseLayout order; empty when the push carries none.
  absl::Span<const float> dense;
  // Instead, where server and sender have one memory: by tensor, the gradients of all of it.
  absl::Span<const float* const> tensors = {};
  // Other partitions of this batch went ahead in another message: the server counts them as one push.
  bool continues = false;
  // For the client, not sent. By entry of `partitions`: how many floats of `dense` are its own; a client cuts a large
  // push between partitions, but leaves one with dense gradients whole when it does not know this.
  absl::Span<const uint64_t> dense_sizes = {};
  bool whole = false;  // bsp: the server takes all partitions or none
};

struct PartitionAnswer {
  uint32_t partition = 0;
  PushOutcome outcome = PushOutcome::kAccepted;
  uint64_t watermark = 0;
};

struct PushReply {
  RequestOutcome outcome = RequestOutcome::kOk;
  uint64_t map_version = 0;
  uint64_t pushes_applied = 0;  // before this one
  // Rows (and dense blocks, which only the guard refuses) that were not updated although their partition accepted the
  // push. bsp: always 0, because rows are judged when the round is applied.
  uint64_t guard_refused = 0;
  uint64_t not_admitted = 0;
  uint64_t memory_refused = 0;
  std::vector<PartitionAnswer> exceptions;  // partitions that did not answer kAccepted
  bool staged = false;                      // the answer to a piece whose request is not complete yet
};

// bsp: tells that every server acknowledged this logical lane's push for `round`; `last`: the lane has no further
// rounds (round is then its number of rounds minus one, or has_round is false when it never had one). Idempotent.
struct MarkRequest {
  RequestHeader header;
  uint64_t lease = 0;
  uint32_t logical_lane = 0;
  bool has_round = true;
  uint64_t round = 0;
  bool last = false;
};

struct MarkReply {
  RequestOutcome outcome = RequestOutcome::kOk;
  uint64_t map_version = 0;
};

}  // namespace shoal

#endif  // SHOAL_PROTO_WIRE_PARAMETER_MESSAGES_H_
