#include "local/bench/wire_bench.h"

#include <sys/types.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <sstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/machine.h"
#include "base/status_macros.h"
#include "local/bench/bench_job.h"
#include "local/bench/bench_worker.h"
#include "local/bench/raw_calls.h"
#include "local/process_cluster.h"

namespace shoal {
namespace {

constexpr int kServers = 2;
// Batches in flight: one lane each.
constexpr uint32_t kLanes = 4;
// On the machine of the dated note in docs/performance.md, with the same keys, rows and servers.
constexpr double kPsLitePull = 14.7, kPsLitePush = 10.3;

// CPU time of this process and its children so far.
double FamilyCpuSeconds() {
  double ticks = 0;
  const std::string self = absl::StrCat(getpid());
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    uint64_t pid;
    if (!absl::SimpleAtoi(entry.path().filename().string(), &pid)) continue;
    std::ifstream file(entry.path() / "stat");
    std::stringstream text;
    text << file.rdbuf();
    const std::string stat = text.str();
    const size_t end = stat.rfind(')');
    if (end == std::string::npos) continue;
    std::istringstream fields(stat.substr(end + 1));
    std::string state, parent, skipped;
    fields >> state >> parent;
    if (parent != self && absl::StrCat(pid) != self) continue;
    for (int i = 0; i < 9; ++i) fields >> skipped;
    double user = 0, system = 0;
    fields >> user >> system;
    ticks += user + system;
  }
  return ticks / static_cast<double>(sysconf(_SC_CLK_TCK));
}

struct Sample {
  double rate = 0;    // M rows a second
  double cpu_ns = 0;  // of all processes, a row
};

template <typename Run>
absl::StatusOr<Sample> Take(uint64_t rows, Run run) {
  const double cpu = FamilyCpuSeconds(), wall = WallSeconds();
  SHOAL_RETURN_IF_ERROR(run());
  Sample sample;
  sample.rate = 1e-6 * static_cast<double>(rows) / (WallSeconds() - wall);
  sample.cpu_ns = 1e9 * (FamilyCpuSeconds() - cpu) / static_cast<double>(rows);
  return sample;
}

void Name(const std::string& id, const std::string& what, double ps_lite, BenchRow* rate, BenchRow* cpu) {
  rate->id = cpu->id = id;
  rate->name = absl::StrCat(what, ", gRPC loopback, 2 servers");
  rate->unit = "M rows/s";
  rate->other_name = cpu->other_name = "raw call";
  rate->target = 0.4;
  rate->note = absl::StrCat("ps-lite 2026-11 elsewhere: ", ps_lite);
  cpu->name = absl::StrCat(what, ", CPU of all processes");
  cpu->unit = "ns/row";
}

}  // namespace

absl::StatusOr<BenchRows> RunWireBench(BenchSize size) {
  KeepFreedMemory();  // as a worker does
  ProcessClusterOptions options;
  options.servers = kServers;
  options.workers = 0;
  options.log_level = "warning";
  SHOAL_ASSIGN_OR_RETURN(const std::unique_ptr<ProcessCluster> cluster, ProcessCluster::Start(options));
  BenchJob job;
  if (size == BenchSize::kSmoke) job.rows = 2 * kBenchKeys;
  SHOAL_ASSIGN_OR_RETURN(auto worker, BenchWorker::Start(cluster->scheduler(), job, kBenchKeys, kLanes));
  SHOAL_ASSIGN_OR_RETURN(auto raw, RawServers::Start(kServers, kLanes));
  SHOAL_RETURN_IF_ERROR(worker->Fill());
  const int repeats = size == BenchSize::kSmoke ? 1 : size == BenchSize::kQuick ? 7 : 15;
  const int batches = size == BenchSize::kSmoke ? 4 : 64;  // a lane and sample
  const uint64_t rows = kBenchKeys * kLanes * static_cast<uint64_t>(batches);
  const uint64_t keys = kBenchKeys / kServers * sizeof(uint64_t), values = kBenchKeys / kServers * job.dim * 4;
  BenchRows out(4);
  Name("T1", "pull", kPsLitePull, &out[0], &out[1]);
  Name("T2", "push", kPsLitePush, &out[2], &out[3]);
  for (int i = 0; i < repeats; ++i) {
    for (int push = 0; push < 2; ++push) {
      BenchRow &rate = out[static_cast<size_t>(2 * push)], &cpu = out[static_cast<size_t>(2 * push + 1)];
      SHOAL_ASSIGN_OR_RETURN(const Sample ours, Take(rows, [&] {
                               return (push ? worker->Push(batches) : worker->Pull(batches)).status();
                             }));
      SHOAL_ASSIGN_OR_RETURN(const Sample other, Take(rows, [&] {
                               return raw->Call(batches, push ? keys + values : keys, push ? 0 : values);
                             }));
      rate.ours.push_back(ours.rate);
      rate.other.push_back(other.rate);
      cpu.ours.push_back(ours.cpu_ns);
      cpu.other.push_back(other.cpu_ns);
    }
  }
  worker.reset();
  cluster->Stop(absl::Seconds(5));
  return out;
}

}  // namespace shoal
