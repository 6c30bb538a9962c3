// Partitions from checkpoints on disk.
#ifndef SHOAL_SERVER_STORE_RESTORE_H_
#define SHOAL_SERVER_STORE_RESTORE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "server/store/partition.h"

namespace shoal {

struct RestoreOptions {
  // Partitions that are read and filled at the same time; 0: as many as the machine has cores, at most 8.
  uint32_t threads = 0;
};

struct RestoreReport {
  std::string dir;              // the checkpoint that was read
  uint64_t rounds_applied = 0;  // bsp: where it was cut
  uint64_t partitions = 0;
  uint64_t rows = 0;   // read, of full sections and deltas
  uint64_t bytes = 0;  // of sections
};

// Fills partitions that are empty and do not serve with what the checkpoint (or the newest of a directory) holds of
// them, a chain of deltas included. An error names the file, the partition and what does not fit; the partitions are to
// be thrown away then. Memory: the sections that are being read.
absl::Status RestorePartitions(const std::string& path, const JobSchema& schema,
                               absl::Span<Partition* const> partitions, const RestoreOptions& options,
                               RestoreReport* report);

}  // namespace shoal

#endif  // SHOAL_SERVER_STORE_RESTORE_H_
