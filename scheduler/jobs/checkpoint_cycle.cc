#include "scheduler/jobs/checkpoint_cycle.h"

#include "absl/strings/str_cat.h"

namespace shoal {

absl::Status CheckParts(const CheckpointCycle& cycle, uint32_t partitions, bool bsp) {
  std::vector<const PartInfo*> in(partitions, nullptr);
  const PartitionDone* first = nullptr;
  for (const auto& [server, part] : cycle.parts) {
    for (uint32_t p : part.partitions()) {
      if (p >= partitions) {
        return absl::DataLossError(
            absl::StrCat(part.file(), " holds partition ", p, ", the job has ", partitions, " partitions"));
      }
      if (in[p] != nullptr) {
        return absl::DataLossError(absl::StrCat("partition ", p, " is in ", in[p]->file(), " and in ", part.file()));
      }
      in[p] = &part;
    }
    for (const PartitionDone& done : part.done()) {
      if (first == nullptr) first = &done;
      // All of a bsp job's partitions stand at one round, or what is cut from them is no state that ever was.
      if (!bsp) continue;
      const uint64_t rounds = cycle.task.cut_at_round() ? cycle.rounds : first->rounds_applied();
      if (done.rounds_applied() == rounds) continue;
      return absl::DataLossError(absl::StrCat(part.file(), ": partition ", done.partition(), " was cut at round ",
                                              done.rounds_applied(), ", must be ", rounds));
    }
  }
  for (uint32_t p = 0; p < partitions; ++p) {
    if (in[p] == nullptr) return absl::DataLossError(absl::StrCat("partition ", p, " is in no part"));
  }
  return absl::OkStatus();
}

}  // namespace shoal
