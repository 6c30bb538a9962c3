#include "local/bench/store_bench.h"

#include <algorithm>
#include <memory>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "local/bench/bare_rows.h"
#include "local/bench/bench_job.h"
#include "local/bench/one_server.h"

namespace shoal {
namespace {

constexpr double kTarget = 0.85;
// Different batches in a sample: together they touch far more rows than any cache holds.
constexpr size_t kBatches = 64;

BenchRow Row(const BenchJob& job, const char* what) {
  BenchRow row;
  row.id = "T3";
  row.name = absl::StrCat(
      what, ", ",
      job.rows >= 1'000'000 ? absl::StrCat(job.rows / 1'000'000, " M rows") : absl::StrCat(job.rows, " rows"), ", dim ",
      job.dim);
  row.unit = "M rows/s";
  row.other_name = "bare loop";
  row.target = kTarget;
  return row;
}

// Millions of rows a second over all batches.
template <typename Each>
double Rate(uint64_t rows_per_batch, Each each) {
  const double start = ThreadCpuSeconds();
  for (size_t i = 0; i < kBatches; ++i) each(i);
  return 1e-6 * static_cast<double>(rows_per_batch * kBatches) / (ThreadCpuSeconds() - start);
}

absl::Status Measure(const BenchJob& job, int repeats, BenchRows* rows) {
  BenchRow pull = Row(job, "pull"), push = Row(job, "push");
  // Index, rows and the bare arrays of the same size, with room for the rest of the machine.
  const uint64_t needed = job.rows * (uint64_t{job.dim} * 4 + 36) * 2;
  if (needed + needed / 2 > AvailableBytes()) {
    pull.skipped = push.skipped = absl::StrCat("needs ", (needed + needed / 2) >> 20, " MiB of free memory");
    rows->insert(rows->end(), {pull, push});
    return absl::OkStatus();
  }
  SHOAL_ASSIGN_OR_RETURN(std::unique_ptr<OneServer> server, OneServer::Create(job));
  SHOAL_RETURN_IF_ERROR(server->Fill());
  BareRows bare(job.rows, job.dim, job.partitions);
  const uint64_t count = std::min(kBenchKeys, job.rows / 2);
  std::vector<BenchShare> shares;
  std::vector<std::vector<uint64_t>> places;
  for (size_t i = 0; i < kBatches; ++i) {
    shares.push_back(server->Share(UniformKeys(job, count, i)));
    places.push_back(bare.PlacesOf(shares.back().keys));
  }
  std::vector<float> out(count * job.dim), gradients(count * job.dim);
  for (size_t i = 0; i < gradients.size(); ++i) gradients[i] = 0.001f * static_cast<float>(i % 1000) - 0.5f;
  absl::Status status;
  // Not counted: the first round brings pages and caches into the state of a running job.
  for (const BenchShare& share : shares) status.Update(server->Push(share, gradients.data()));
  Interleave(
      repeats, [&] { return Rate(count, [&](size_t i) { status.Update(server->Pull(shares[i], out.data())); }); },
      [&] { return Rate(count, [&](size_t i) { bare.Pull(places[i], out.data()); }); }, &pull);
  Interleave(
      repeats, [&] { return Rate(count, [&](size_t i) { status.Update(server->Push(shares[i], gradients.data())); }); },
      [&] { return Rate(count, [&](size_t i) { bare.Push(places[i], gradients.data(), OneServer::kExamples); }); },
      &push);
  rows->insert(rows->end(), {pull, push});
  return status;
}

}  // namespace

absl::StatusOr<BenchRows> RunStoreBench(BenchSize size) {
  BenchRows rows;
  std::vector<uint64_t> tables = {1'000'000};
  if (size == BenchSize::kSmoke) tables = {30'000};
  if (size == BenchSize::kFull) tables = {1'000'000, 10'000'000, 50'000'000};
  for (uint64_t table : tables) {
    BenchJob job;
    job.rows = table;
    SHOAL_RETURN_IF_ERROR(Measure(job, size == BenchSize::kSmoke ? 1 : size == BenchSize::kQuick ? 5 : 9, &rows));
  }
  return rows;
}

}  // namespace shoal
