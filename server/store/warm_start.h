// A new job that begins with tables of another one.
#ifndef SHOAL_SERVER_STORE_WARM_START_H_
#define SHOAL_SERVER_STORE_WARM_START_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "server/store/partition.h"

namespace shoal {

// What was taken and what was not.
struct WarmStartReport {
  struct Table {
    std::string name;
    bool dense = false;
    uint64_t rows = 0;  // taken into the given partitions; dense: blocks
  };
  std::string dir;  // the checkpoint that was read
  std::vector<Table> tables;
  std::vector<std::string> missing;  // tables and tensors of the job that begin anew
  std::vector<std::string> extra;    // those of the checkpoint that the job does not use
};

// Which tables and tensors of the job come from the checkpoint. NOT_FOUND and INVALID_ARGUMENT name what is not there
// or has another shape; only tables of the job, the checkpoint's manifest and the header of its parts are looked at.
absl::StatusOr<WarmStartReport> CheckWarmStart(const WarmStart& warm_start, const JobSchema& schema);

// Puts the chosen rows and blocks into partitions that are new and do not serve, as if the job had always had them:
// nothing of its data counts as seen. The checkpoint may have another number of partitions. Memory: a section per
// thread.
absl::StatusOr<WarmStartReport> WarmStartPartitions(const WarmStart& warm_start, const JobSchema& schema,
                                                    absl::Span<Partition* const> partitions);

}  // namespace shoal

#endif  // SHOAL_SERVER_STORE_WARM_START_H_
