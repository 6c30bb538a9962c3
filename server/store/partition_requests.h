// What partitions are asked for: shares of pulls and pushes, and the answers.
#ifndef SHOAL_SERVER_STORE_PARTITION_REQUESTS_H_
#define SHOAL_SERVER_STORE_PARTITION_REQUESTS_H_

#include <cstdint>
#include <memory_resource>
#include <vector>

#include "absl/types/span.h"
#include "proto/wire/parameter_messages.h"
#include "server/store/dense_gradients.h"
#include "server/store/sparse_table.h"

namespace shoal {

class Partition;

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
  std::pmr::vector<RowGradients> rows;
  DenseGradients dense;
};

// Rows of one table that are asked of one partition.
struct RowsRead {
  const Partition* partition = nullptr;
  uint32_t table = 0;
  absl::Span<const uint64_t> keys;
  absl::Span<const uint64_t> hashes;  // KeyPlace::within by key
  float* out = nullptr;               // |keys| x dim
};

struct PushVerdict {
  PushOutcome outcome = PushOutcome::kAccepted;
  uint64_t watermark = 0;
  uint64_t version = 0;   // of the partition after it
  bool mirrored = false;  // accepted or found applied, and a backup must have that version before it is acknowledged
};

// One partition's share of a push and what became of it.
struct PartitionPush {
  Partition* partition = nullptr;
  absl::Span<const RowGradients> rows;
  DenseGradients dense;
  PushVerdict verdict = {};
};

}  // namespace shoal

#endif  // SHOAL_SERVER_STORE_PARTITION_REQUESTS_H_
