#include "scheduler/jobs/job_check.h"

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/job/job_check.h"

namespace shoal {
namespace {

constexpr uint32_t kMaxPartitions = 65536;
constexpr uint32_t kMaxLogicalLanes = 65536;
// Metrics and done sets are kept per split.
constexpr uint64_t kMaxSplits = uint64_t{1} << 40;
constexpr uint64_t kMaxConfigBytes = uint64_t{8} << 20;

absl::Status OutOfBounds(const char* field, uint64_t value, uint64_t low, uint64_t high) {
  return absl::InvalidArgumentError(absl::StrCat(field, ": ", value, ", must be in [", low, ", ", high, "]"));
}

}  // namespace

absl::Status CheckSubmittedJob(const Job& job) {
  if (job.name().empty()) return absl::InvalidArgumentError("name: missing");
  if (job.partitions() < 1 || job.partitions() > kMaxPartitions) {
    return OutOfBounds("partitions", job.partitions(), 1, kMaxPartitions);
  }
  if (job.data().passes() < 1) return OutOfBounds("data.passes", job.data().passes(), 1, UINT32_MAX);
  if (job.batch().size() < 1) return OutOfBounds("batch.size", job.batch().size(), 1, UINT32_MAX);
  if (job.data().train().empty() && !job.data().format().has_synthetic()) {
    return absl::InvalidArgumentError("data.train: no inputs");
  }
  if (job.sync().has_bsp() && (job.sync().bsp().lanes() < 1 || job.sync().bsp().lanes() > kMaxLogicalLanes)) {
    return OutOfBounds("sync.bsp.lanes", job.sync().bsp().lanes(), 1, kMaxLogicalLanes);
  }
  if (job.has_checkpoint() && job.checkpoint().dir().empty()) {
    return absl::InvalidArgumentError("checkpoint.dir: missing");
  }
  absl::Status fits;
  CheckRecovery(job, [&fits](const std::string& path, absl::string_view message) {
    fits = absl::InvalidArgumentError(absl::StrCat(path, ": ", message));
  });
  return fits;
}

std::string PlainDirectory(const std::string& path) {
  const std::filesystem::path plain = std::filesystem::path(path).lexically_normal();
  return (plain.has_filename() ? plain : plain.parent_path()).string();
}

absl::Status CheckPlan(const Job& job, const JobPlan& plan) {
  std::set<std::string> names;
  for (const auto& table : plan.model().tables()) names.insert(table.name());
  for (const auto& tensor : plan.model().tensors()) names.insert(tensor.name());
  for (const std::string& name : job.warm_start().tables()) {
    if (names.count(name) > 0) continue;
    return absl::InvalidArgumentError(absl::StrCat("warm_start.tables: the model has no table or tensor called \"",
                                                   name, "\"; it has ", absl::StrJoin(names, ", ")));
  }
  const uint64_t splits = static_cast<uint64_t>(plan.train().splits_size());
  if (splits == 0) return absl::InvalidArgumentError("data.train: the inputs hold no data");
  if (splits > kMaxSplits / job.data().passes()) {
    return absl::InvalidArgumentError(absl::StrCat("data: ", splits, " splits in ", job.data().passes(),
                                                   " passes, must be at most ", kMaxSplits,
                                                   " in all: raise data.split_bytes"));
  }
  // Job and plan travel in one message, also beside a piece of a partition.
  const uint64_t bytes = job.ByteSizeLong() + plan.ByteSizeLong();
  if (bytes > kMaxConfigBytes) {
    return absl::InvalidArgumentError(absl::StrCat("data: job and plan, with ", splits, " splits, take ", bytes,
                                                   " bytes, must be at most ", kMaxConfigBytes,
                                                   ": raise data.split_bytes"));
  }
  return absl::OkStatus();
}

std::string PlanWarning(const Job& job, const JobPlan& plan) {
  if (job.model().preset() != Model::COUNTING) return "";
  // A float holds every integer up to here; a record adds up to 15 to each column.
  constexpr uint64_t kExact = uint64_t{1} << 24, kMostPerRecord = 15;
  const uint64_t records = plan.train().records();
  if (records <= kExact / kMostPerRecord / job.data().passes()) return "";
  return absl::StrCat("model.preset: counting: its sums are f32, which hold every integer up to 2^24 = ", kExact,
                      "; they are certainly exact for up to ", kExact / kMostPerRecord, " records, this job has ",
                      records, " in ", job.data().passes(), " passes");
}

std::string SyncName(const Job& job) {
  if (job.sync().has_bsp()) return absl::StrCat("bsp(", job.sync().bsp().lanes(), ")");
  if (job.sync().has_asp()) return "asp";
  // Servers use the same default.
  return absl::StrCat("ssp(", job.sync().has_ssp() ? job.sync().ssp().staleness() : 4, ")");
}

}  // namespace shoal
