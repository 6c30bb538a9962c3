#include "local/bench/memory_bench.h"

#include <malloc.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "local/bench/one_server.h"
#include "server/store/job_schema.h"

namespace shoal {
namespace {

constexpr double kBeyondPayload = 28;  // bytes a row
constexpr double kTimesPayload = 1.3;
constexpr uint32_t kWideDim = 32;

absl::Status Measure(const BenchJob& job, BenchRows* rows) {
  SHOAL_ASSIGN_OR_RETURN(const auto schema, JobSchema::Create(MakeBenchConfig(job)));
  const uint64_t payload = (uint64_t{job.dim} + schema->tables[0].state) * sizeof(float);
  BenchRow row;
  row.id = "T7";
  row.name = absl::StrCat(job.rows / 1000, " k rows, dim ", job.dim, ", ", job.optimizer);
  row.unit = "bytes/row";
  row.target = 1;
  row.at_most = true;
  if (job.rows * (payload + 40) * 3 / 2 > AvailableBytes()) {
    row.skipped = absl::StrCat("needs ", (job.rows * (payload + 40) * 3 / 2) >> 20, " MiB of free memory");
    rows->push_back(row);
    return absl::OkStatus();
  }
  // What earlier tables left behind must not be reused unseen. What pools keep for later calls is no part of a row.
  malloc_trim(0);
  const uint64_t before = ResidentBytes();
  SHOAL_ASSIGN_OR_RETURN(const std::unique_ptr<OneServer> server, OneServer::Create(job, 0));
  SHOAL_RETURN_IF_ERROR(server->Fill());
  malloc_trim(0);
  const double count = static_cast<double>(job.rows);
  const double resident = static_cast<double>(ResidentBytes() - before) / count;
  const double accounted = static_cast<double>(server->AccountedBytes()) / count;
  row.note = absl::StrCat("payload ", payload, ", accounted ", static_cast<int>(accounted + 0.5));
  BenchRow beyond = row;
  beyond.name += ": beyond payload";
  beyond.ours = {resident - static_cast<double>(payload)};
  beyond.other = {kBeyondPayload};
  beyond.other_name = "bound";
  rows->push_back(beyond);
  if (job.dim >= kWideDim) {
    row.name += ": all";
    row.ours = {resident};
    row.other = {static_cast<double>(payload)};
    row.other_name = "payload";
    row.target = kTimesPayload;
    rows->push_back(row);
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<BenchRows> RunMemoryBench(BenchSize size) {
  BenchRows rows;
  BenchJob job;
  if (size == BenchSize::kFull) {
    for (const char* optimizer : {"sgd", "momentum", "adagrad", "rowwise_adagrad", "adam", "amsgrad", "ftrl"}) {
      for (uint32_t dim : {1u, 8u, 16u, 64u}) {
        job.dim = dim;
        job.optimizer = optimizer;
        job.rows = 1'000'000;
        SHOAL_RETURN_IF_ERROR(Measure(job, &rows));
      }
    }
    job.optimizer = "rowwise_adagrad";
    job.rows = 10'000'000;
  } else {
    // A partition of a few rows has a half-empty slab: a table must be large for the figure to mean anything.
    job.rows = size == BenchSize::kSmoke ? 200'000 : 1'000'000;
    if (size == BenchSize::kSmoke) job.partitions = 16;
  }
  for (uint32_t dim : {1u, 8u, 16u, 64u}) {
    job.dim = dim;
    SHOAL_RETURN_IF_ERROR(Measure(job, &rows));
  }
  return rows;
}

}  // namespace shoal
