#include "local/bench/one_server.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <utility>

#include "base/status_macros.h"

namespace shoal {
namespace {

constexpr uint64_t kSelf = 100;  // process number of the server
constexpr RequestHeader kHeader = {1, 1, 1, 1};

}  // namespace

absl::Status PushShare(const BenchShare& share, uint32_t dim, const float* gradients, PushRequest head,
                       ParameterServer* server) {
  const uint32_t table = 0;
  head.partitions = share.partitions;
  PushGroup group;
  group.keys = share.keys;
  group.counts = share.counts;
  group.tables = {&table, 1};
  group.dims = {&dim, 1};
  group.gradients = {gradients};
  head.groups.push_back(group);
  PushReply reply;
  absl::Status status;
  server->Push(&head, &reply, [&](absl::Status s) { status = s; });
  SHOAL_RETURN_IF_ERROR(status);
  if (!reply.exceptions.empty()) return absl::InternalError("a partition did not take a push");
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<OneServer>> OneServer::Create(const BenchJob& job, uint64_t pooled_bytes) {
  ParameterServerOptions options;
  options.buffers = BufferPool::Create(pooled_bytes);
  auto out = std::unique_ptr<OneServer>(new OneServer(job, options));
  JobView view;
  view.set_job(kHeader.job);
  view.set_run(kHeader.run);
  view.set_map_version(kHeader.map_version);
  view.set_live_version(1);
  view.set_next_lane(1);
  view.add_servers()->set_process(kSelf);
  for (uint32_t p = 0; p < job.partitions; ++p) view.add_owner(0);
  SHOAL_RETURN_IF_ERROR(out->server_.PrepareJob(MakeBenchConfig(job), view, kSelf, ""));
  OpenSplitRequest open;
  open.header = kHeader;
  open.lease = 1;
  OpenSplitReply reply;
  absl::Status status;
  out->server_.OpenSplit(&open, &reply, [&](absl::Status s) { status = s; });
  SHOAL_RETURN_IF_ERROR(status);
  return out;
}

BenchShare OneServer::Share(absl::Span<const uint64_t> keys) const {
  return ShareOf(keys, std::vector<uint32_t>(job_.partitions, 0), 0);
}

absl::Status OneServer::Pull(const BenchShare& share, float* out) {
  PullRequest request;
  request.header = kHeader;
  request.partitions = share.partitions;
  request.dense = false;
  request.groups.push_back({share.keys, share.counts, tables_, dims_});
  PullReply reply;
  reply.rows = {{out}};
  absl::Status status;
  server_.Pull(&request, absl::Seconds(1), &reply, [&](absl::Status s) { status = s; });
  return status;
}

absl::Status OneServer::Push(const BenchShare& share, const float* gradients) {
  PushRequest head;
  head.header = kHeader;
  head.lease = 1;
  head.begin = records_;
  records_ += kExamples;
  head.end = records_;
  head.examples = kExamples;
  return PushShare(share, job_.dim, gradients, std::move(head), &server_);
}

absl::Status OneServer::Fill() {
  return PushAllKeys(job_, [&](const std::vector<uint64_t>& keys) {
    const std::vector<float> gradients(keys.size() * job_.dim, 0.5f);
    return Push(Share(keys), gradients.data());
  });
}

uint64_t AvailableBytes() {
  std::ifstream file("/proc/meminfo");
  std::string name, unit;
  uint64_t kib;
  while (file >> name >> kib >> unit) {
    if (name == "MemAvailable:") return kib << 10;
  }
  return 0;
}

uint64_t ResidentBytes() {
  std::ifstream file("/proc/self/statm");
  uint64_t total = 0, resident = 0;
  file >> total >> resident;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

}  // namespace shoal
