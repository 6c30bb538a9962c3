#include "local/bench/store_bench.h"

#include <algorithm>
#include <fstream>
#include <memory>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "local/bench/bare_rows.h"
#include "local/bench/bench_job.h"
#include "server/parameter_server.h"

namespace shoal {
namespace {

constexpr double kTarget = 0.85;
// Different batches in a sample: together they touch far more rows than any cache holds.
constexpr size_t kBatches = 64;
constexpr uint64_t kSelf = 100;  // process number of the server

// A job on one ParameterServer in this process.
class OneServer {
 public:
  static absl::StatusOr<std::unique_ptr<OneServer>> Create(const BenchJob& job) {
    auto out = std::unique_ptr<OneServer>(new OneServer(job));
    JobView view;
    view.set_job(1);
    view.set_run(1);
    view.set_map_version(1);
    view.set_live_version(1);
    view.set_next_lane(1);
    view.add_servers()->set_process(kSelf);
    for (uint32_t p = 0; p < job.partitions; ++p) view.add_owner(0);
    SHOAL_RETURN_IF_ERROR(out->server_.PrepareJob(MakeBenchConfig(job), view, kSelf, ""));
    OpenSplitRequest open;
    open.header = Header();
    open.lease = 1;
    OpenSplitReply reply;
    absl::Status status;
    out->server_.OpenSplit(&open, &reply, [&](absl::Status s) { status = s; });
    SHOAL_RETURN_IF_ERROR(status);
    return out;
  }

  absl::Status Pull(const BenchShare& share, float* out) {
    PullRequest request;
    request.header = Header();
    request.partitions = share.partitions;
    request.dense = false;
    request.groups.push_back({share.keys, share.counts, tables_, dims_});
    PullReply reply;
    reply.rows = {{out}};
    absl::Status status;
    server_.Pull(&request, absl::Seconds(1), &reply, [&](absl::Status s) { status = s; });
    return status;
  }

  absl::Status Push(const BenchShare& share, const float* gradients) {
    PushRequest request;
    request.header = Header();
    request.lease = 1;
    request.begin = records_;
    records_ += kExamples;
    request.end = records_;
    request.examples = kExamples;
    request.partitions = share.partitions;
    PushGroup group;
    group.keys = share.keys;
    group.counts = share.counts;
    group.tables = tables_;
    group.dims = dims_;
    group.gradients = {gradients};
    request.groups.push_back(group);
    PushReply reply;
    absl::Status status;
    server_.Push(&request, &reply, [&](absl::Status s) { status = s; });
    SHOAL_RETURN_IF_ERROR(status);
    if (!reply.exceptions.empty()) return absl::InternalError("a partition did not take a push");
    return absl::OkStatus();
  }

  // Creates all rows.
  absl::Status Fill() {
    const std::vector<uint32_t> owner(job_.partitions, 0);
    std::vector<uint64_t> keys;
    for (uint64_t at = 0; at < job_.rows; at += keys.size()) {
      keys.clear();
      for (uint64_t i = at; i < std::min<uint64_t>(job_.rows, at + 32 * kBenchKeys); ++i) keys.push_back(BenchKey(i));
      const std::vector<float> gradients(keys.size() * job_.dim, 0.5f);
      SHOAL_RETURN_IF_ERROR(Push(ShareOf(keys, owner, 0), gradients.data()));
    }
    return absl::OkStatus();
  }

 private:
  static constexpr uint64_t kExamples = 512;
  explicit OneServer(const BenchJob& job) : job_(job), dims_{job.dim}, server_(ParameterServerOptions{}) {}
  static RequestHeader Header() { return {1, 1, 1, 1}; }

  const BenchJob job_;
  const std::vector<uint32_t> tables_ = {0};
  const std::vector<uint32_t> dims_;
  ParameterServer server_;
  uint64_t records_ = 0;
};

uint64_t AvailableBytes() {
  std::ifstream file("/proc/meminfo");
  std::string name, unit;
  uint64_t kib;
  while (file >> name >> kib >> unit) {
    if (name == "MemAvailable:") return kib << 10;
  }
  return 0;
}

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
  const std::vector<uint32_t> owner(job.partitions, 0);
  const uint64_t count = std::min(kBenchKeys, job.rows / 2);
  std::vector<BenchShare> shares;
  std::vector<std::vector<uint64_t>> places;
  for (size_t i = 0; i < kBatches; ++i) {
    shares.push_back(ShareOf(UniformKeys(job, count, i), owner, 0));
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
      [&] { return Rate(count, [&](size_t i) { bare.Push(places[i], gradients.data(), 512); }); }, &push);
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
