// Moves a big table from one server to another over loopback and prints how fast.
//   copy_speed [--rows N] [--dim N] [--at-once N] [--round-trip-ms N]
// --round-trip-ms: as if the other server were so far away.
// Exits 1 when the rows that have arrived are not the same.
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "local/bench/bench_job.h"
#include "local/bench/bench_row.h"
#include "local/bench/one_server.h"
#include "server/parameter_server.h"
#include "server/rpc/grpc_replica_client.h"
#include "server/rpc/parameter_service.h"

namespace shoal {
namespace {

struct Options {
  BenchJob job;
  uint32_t at_once = 4;
  uint32_t round_trip_ms = 0;
};

// Every message takes a while, whatever else is under way.
class DistantClient : public ReplicaClient {
 public:
  DistantClient(std::unique_ptr<ReplicaClient> inner, uint32_t round_trip_ms)
      : inner_(std::move(inner)), round_trip_ms_(round_trip_ms) {}
  void Replicate(const ReplicaRequest& request, absl::Duration timeout, Done done) override {
    std::this_thread::sleep_for(std::chrono::milliseconds(round_trip_ms_));
    inner_->Replicate(request, timeout, std::move(done));
  }

 private:
  const std::unique_ptr<ReplicaClient> inner_;
  const uint32_t round_trip_ms_;
};

// Creates all rows. REQUIRES: the server owns all partitions.
absl::Status Fill(const BenchJob& job, ParameterServer* server) {
  const std::vector<uint32_t> owner(job.partitions, 0);
  const std::vector<float> gradients(32 * kBenchKeys * job.dim, 0.5f);
  uint64_t batch = 0;
  return PushAllKeys(job, [&](const std::vector<uint64_t>& keys) {
    PushRequest head;
    head.header = {1, 1, 1, 1};
    head.lease = 1;
    head.begin = batch++;
    head.end = batch;
    head.examples = 1;
    return PushShare(ShareOf(keys, owner, 0), job.dim, gradients.data(), std::move(head), server);
  });
}

absl::StatusOr<std::pair<uint64_t, uint64_t>> DigestOf(const ParameterServer& server) {
  SHOAL_ASSIGN_OR_RETURN(const std::vector<TableDigest> digests, server.Digest(1));
  return std::make_pair(digests.at(0).sum(), digests.at(0).rows());
}

absl::Status Run(const Options& options) {
  const JobConfig config = MakeBenchConfig(options.job);
  JobView view;
  view.set_job(1);
  view.set_run(1);
  view.set_map_version(1);
  view.set_live_version(1);
  view.set_next_lane(1);
  for (uint64_t process : {100, 101}) view.add_servers()->set_process(process);
  for (uint32_t p = 0; p < options.job.partitions; ++p) view.add_owner(0);
  std::vector<std::unique_ptr<ParameterServer>> servers;
  std::vector<std::unique_ptr<ParameterGrpcServer>> grpc;
  for (int s = 0; s < 2; ++s) {
    ParameterServerOptions server_options;
    server_options.name = absl::StrCat("server-", s);
    server_options.copies_at_once = options.at_once;
    server_options.connect =
        [ms = options.round_trip_ms](const ServerAddress& to) -> absl::StatusOr<std::unique_ptr<ReplicaClient>> {
      SHOAL_ASSIGN_OR_RETURN(std::unique_ptr<GrpcReplicaClient> client, GrpcReplicaClient::Create(to.address()));
      return std::unique_ptr<ReplicaClient>(new DistantClient(std::move(client), ms));
    };
    servers.push_back(std::make_unique<ParameterServer>(server_options));
    SHOAL_ASSIGN_OR_RETURN(std::unique_ptr<ParameterGrpcServer> started,
                           ParameterGrpcServer::Start(servers.back().get(), {}));
    view.mutable_servers(s)->set_address(started->address());
    grpc.push_back(std::move(started));
  }
  Task task;
  task.set_id(1);
  task.set_kind(Task::MOVE_PARTITIONS);
  task.set_job(1);
  task.set_run(1);
  *task.mutable_target() = view.servers(1);
  for (uint32_t p = 0; p < options.job.partitions; ++p) task.add_partitions(p);
  ClusterView cluster;
  *cluster.add_jobs() = view;
  cluster.add_tasks()->set_id(1);
  for (uint64_t s = 0; s < 2; ++s) {
    SHOAL_RETURN_IF_ERROR(servers[s]->PrepareJob(config, view, 100 + s, ""));
    servers[s]->UpdateView(cluster, 100 + s);
  }
  SHOAL_RETURN_IF_ERROR(Fill(options.job, servers[0].get()));
  SHOAL_ASSIGN_OR_RETURN(const auto sent, DigestOf(*servers[0]));
  const double begun = WallSeconds(), cpu = ProcessCpuSeconds();
  std::string report;
  SHOAL_RETURN_IF_ERROR(servers[0]->MovePartitions(task, &report));
  const double seconds = WallSeconds() - begun, cpu_seconds = ProcessCpuSeconds() - cpu;
  const uint64_t bytes = servers[1]->Report(1).bytes();
  std::printf("%llu rows of dim %u, %u at a time: %.2f GB in %.3f s, %.2f GB/s; %.3f s of CPU time\n%s\n",
              static_cast<unsigned long long>(sent.second), options.job.dim, options.at_once,
              1e-9 * static_cast<double>(bytes), seconds, 1e-9 * static_cast<double>(bytes) / seconds, cpu_seconds,
              report.c_str());
  view.set_map_version(2);
  for (int p = 0; p < view.owner_size(); ++p) view.set_owner(p, 1);
  *cluster.mutable_jobs(0) = view;
  for (uint64_t s = 0; s < 2; ++s) servers[s]->UpdateView(cluster, 100 + s);
  SHOAL_ASSIGN_OR_RETURN(const auto arrived, DigestOf(*servers[1]));
  if (arrived == sent) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(arrived.second, " rows have arrived, ", sent.second, " were sent"));
}

}  // namespace
}  // namespace shoal

int main(int argc, char** argv) {
  shoal::Options options;
  options.job.rows = 6'000'000;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i], value = argv[i + 1];
    const bool good = name == "--rows"            ? absl::SimpleAtoi(value, &options.job.rows)
                      : name == "--dim"           ? absl::SimpleAtoi(value, &options.job.dim)
                      : name == "--at-once"       ? absl::SimpleAtoi(value, &options.at_once)
                      : name == "--round-trip-ms" ? absl::SimpleAtoi(value, &options.round_trip_ms)
                                                  : false;
    if (good) continue;
    std::fprintf(stderr, "copy_speed: %s %s\n", name.c_str(), value.c_str());
    return 2;
  }
  const absl::Status status = shoal::Run(options);
  if (status.ok()) return 0;
  std::fprintf(stderr, "copy_speed: %s\n", std::string(status.message()).c_str());
  return 1;
}
