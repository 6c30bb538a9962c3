#include "local/bench/bench_worker.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "local/connection.h"
#include "proto/cluster_member.h"
#include "proto/job/job_file.h"
#include "proto/protocol_version.h"
#include "worker/client/grpc_parameter_client.h"

namespace shoal {
namespace {

constexpr absl::Duration kTimeout = absl::Seconds(30);
// A map that has not changed for so long stays.
constexpr absl::Duration kSettled = absl::Seconds(3);
constexpr uint64_t kExamples = 512;
// Different batches of a lane.
constexpr size_t kBatches = 32;

// Counts calls in flight. Thread-safe.
class Waiter {
 public:
  std::function<void(absl::Status)> Begin() {
    MutexLock lock(&mu_);
    ++open_;
    return [this](absl::Status status) {
      MutexLock done(&mu_);
      status_.Update(status);
      if (--open_ == 0) idle_.SignalAll();
    };
  }
  absl::Status Wait() {
    MutexLock lock(&mu_);
    while (open_ > 0) idle_.WaitFor(&mu_, kTimeout);
    return status_;
  }

 private:
  Mutex mu_;
  CondVar idle_;
  int open_ ABSL_GUARDED_BY(mu_) = 0;
  absl::Status status_ ABSL_GUARDED_BY(mu_);
};

// One lane, with a lease of its own split. Owned by one thread at a time.
struct BenchLane {
  Grant grant;
  uint64_t records = 0, clock = 0;
  std::vector<std::vector<BenchShare>> batches;  // by batch, by server
  std::vector<std::vector<float>> rows;          // by server
  std::vector<float> gradients;
};

absl::StatusOr<Job> BenchJobFile(const BenchJob& job) {
  return LoadJobFromText(
      absl::StrCat("name: bench\ndata: {format: {synthetic: {rows: 1000000}}}\nmodel: {preset: fm, embedding_dim: ",
                   std::max(job.dim, 1u), "}\nsync: asp\nbatch: {size: ", kExamples, "}\npartitions: ", job.partitions,
                   "\noptimizer: {sparse: {rowwise_adagrad: 0.05}}\n"),
      "bench.yaml", "");
}

}  // namespace

class BenchWorker::Impl {
 public:
  Impl(std::unique_ptr<SchedulerClient> scheduler, const BenchJob& job, uint64_t keys)
      : job_(job), keys_(keys), scheduler_(std::move(scheduler)) {}
  ~Impl() {
    JobRef ref;
    ref.set_job(id_);
    if (id_ != 0) (void)scheduler_->Cancel(ref, kTimeout);
    if (member_ != nullptr) {
      (void)member_->Leave(kTimeout);
      member_->Stop();
    }
  }

  absl::Status Start(uint32_t lanes);
  absl::Status Fill();
  absl::StatusOr<uint64_t> Run(int batches, bool push);

 private:
  absl::StatusOr<BenchLane> TakeLane(uint32_t thread);
  absl::Status AwaitView();
  RequestHeader HeaderOf(const BenchLane& lane) const {
    return {id_, view_.run(), view_.map_version(), lane.grant.lane()};
  }
  absl::Status Pull(BenchLane* lane, const std::vector<BenchShare>& shares);
  absl::Status Push(BenchLane* lane, const std::vector<BenchShare>& shares);

  const BenchJob job_;
  const uint64_t keys_;
  const std::unique_ptr<SchedulerClient> scheduler_;
  std::unique_ptr<ClusterMember> member_;
  uint64_t id_ = 0;
  JobView view_;
  const std::vector<uint32_t> tables_ = {0};
  const std::vector<uint32_t> dims_ = {job_.dim};
  std::vector<std::unique_ptr<GrpcParameterClient>> servers_;
  std::vector<BenchLane> lanes_;
};

// Servers that have just joined take their share of the partitions; what is measured is a map that stays.
absl::Status BenchWorker::Impl::AwaitView() {
  const absl::Duration end = Clock::Steady().Now() + kTimeout;
  absl::Duration since = Clock::Steady().Now();
  for (absl::Duration now = since; now < end; now = Clock::Steady().Now()) {
    const ClusterView view = member_->view();
    for (const JobView& job : view.jobs()) {
      if (job.job() != id_ || job.owner_size() == 0) continue;
      if (job.map_version() != view_.map_version()) since = now;
      view_ = job;
      if (now - since >= kSettled) return absl::OkStatus();
    }
    member_->AwaitView(view.version(), absl::Milliseconds(200));
  }
  return absl::DeadlineExceededError("the job did not start, or its partitions did not come to rest");
}

absl::StatusOr<BenchLane> BenchWorker::Impl::TakeLane(uint32_t thread) {
  BenchLane lane;
  for (uint64_t sequence = 1; lane.grant.lease() == 0; ++sequence) {
    NextWorkRequest request;
    *request.mutable_identity() = member_->identity();
    request.set_thread(thread);
    request.set_sequence(sequence);
    request.set_wait_ms(1000);
    SHOAL_ASSIGN_OR_RETURN(const NextWorkReply reply, scheduler_->NextWork(request, kTimeout));
    if (reply.kind() == NextWorkReply::GRANT) lane.grant = reply.grant();
    if (sequence > 60) return absl::DeadlineExceededError("no work was granted");
  }
  return lane;
}

absl::Status BenchWorker::Impl::Start(uint32_t lanes) {
  RegisterRequest registration;
  registration.set_name("bench");
  registration.set_role(WORKER);
  registration.set_device("cpu");
  registration.set_cores(1);
  registration.set_protocol_version(kProtocolVersion);
  registration.set_threads(lanes);
  registration.set_fingerprint("bench");
  ClusterMember::Callbacks callbacks;
  callbacks.on_view = [](const ClusterView&) {};
  callbacks.do_task = [this](const Task& task, TaskResult* result) {
    if (task.kind() == Task::PLAN) *result->mutable_plan() = MakeBenchConfig(job_).plan();
    return absl::OkStatus();
  };
  callbacks.collect = [] { return HeartbeatRequest(); };
  callbacks.not_delivered = [](const HeartbeatRequest&) {};
  member_ = std::make_unique<ClusterMember>(scheduler_.get(), registration, std::move(callbacks));
  SHOAL_RETURN_IF_ERROR(member_->Start(kTimeout));
  SHOAL_ASSIGN_OR_RETURN(const Job file, BenchJobFile(job_));
  SHOAL_ASSIGN_OR_RETURN(id_, SubmitJob(scheduler_.get(), file, /*restore_from=*/"", kTimeout));
  for (uint32_t thread = 0; thread < lanes; ++thread) {
    SHOAL_ASSIGN_OR_RETURN(BenchLane lane, TakeLane(thread));
    lanes_.push_back(std::move(lane));
  }
  SHOAL_RETURN_IF_ERROR(AwaitView());
  for (const ServerAddress& server : view_.servers()) {
    SHOAL_ASSIGN_OR_RETURN(auto client, GrpcParameterClient::Create(server.address()));
    servers_.push_back(std::move(client));
  }
  const std::vector<uint32_t> owner(view_.owner().begin(), view_.owner().end());
  uint64_t seed = 0;
  for (BenchLane& lane : lanes_) {
    for (size_t b = 0; b < kBatches; ++b) {
      const std::vector<uint64_t> keys = UniformKeys(job_, keys_, ++seed);
      lane.batches.emplace_back();
      for (uint32_t s = 0; s < servers_.size(); ++s) lane.batches.back().push_back(ShareOf(keys, owner, s));
    }
    lane.rows.assign(servers_.size(), std::vector<float>(keys_ * job_.dim));
    lane.gradients.assign(keys_ * job_.dim, 0.5f);
    Waiter waiter;
    std::vector<OpenSplitRequest> requests(servers_.size());
    std::vector<OpenSplitReply> replies(servers_.size());
    for (size_t s = 0; s < servers_.size(); ++s) {
      requests[s].header = HeaderOf(lane);
      requests[s].pass = lane.grant.pass();
      requests[s].split = lane.grant.split();
      requests[s].lease = lane.grant.lease();
      servers_[s]->OpenSplit(&requests[s], kTimeout, &replies[s], waiter.Begin());
    }
    SHOAL_RETURN_IF_ERROR(waiter.Wait());
  }
  return absl::OkStatus();
}

absl::Status BenchWorker::Impl::Pull(BenchLane* lane, const std::vector<BenchShare>& shares) {
  std::vector<PullRequest> requests(servers_.size());
  std::vector<PullReply> replies(servers_.size());
  Waiter waiter;
  for (size_t s = 0; s < servers_.size(); ++s) {
    requests[s].header = HeaderOf(*lane);
    requests[s].batch = requests[s].finished = lane->clock;
    requests[s].partitions = shares[s].partitions;
    requests[s].dense = false;
    requests[s].groups.push_back({shares[s].keys, shares[s].counts, tables_, dims_});
    replies[s].rows = {{lane->rows[s].data()}};
    servers_[s]->Pull(&requests[s], kTimeout, &replies[s], waiter.Begin());
  }
  SHOAL_RETURN_IF_ERROR(waiter.Wait());
  for (const PullReply& reply : replies) {
    if (reply.outcome != RequestOutcome::kOk) return absl::AbortedError("a server refused a pull");
  }
  return absl::OkStatus();
}

absl::Status BenchWorker::Impl::Push(BenchLane* lane, const std::vector<BenchShare>& shares) {
  std::vector<PushRequest> requests(servers_.size());
  std::vector<PushReply> replies(servers_.size());
  Waiter waiter;
  for (size_t s = 0; s < servers_.size(); ++s) {
    PushRequest& request = requests[s];
    request.header = HeaderOf(*lane);
    request.pass = lane->grant.pass();
    request.split = lane->grant.split();
    request.lease = lane->grant.lease();
    request.begin = lane->records;
    request.end = lane->records + kExamples;
    request.examples = kExamples;
    request.partitions = shares[s].partitions;
    PushGroup group;
    group.keys = shares[s].keys;
    group.counts = shares[s].counts;
    group.tables = tables_;
    group.dims = dims_;
    group.gradients = {lane->gradients.data()};
    request.groups.push_back(group);
    servers_[s]->Push(&request, kTimeout, &replies[s], waiter.Begin());
  }
  SHOAL_RETURN_IF_ERROR(waiter.Wait());
  for (const PushReply& reply : replies) {
    if (reply.outcome != RequestOutcome::kOk || !reply.exceptions.empty()) {
      std::string first;
      if (!reply.exceptions.empty()) {
        const PartitionAnswer& answer = reply.exceptions[0];
        first = absl::StrCat(", partition ", answer.partition, " outcome ", static_cast<int>(answer.outcome),
                             " watermark ", answer.watermark);
      }
      return absl::AbortedError(absl::StrCat("a server refused a push: outcome ", static_cast<int>(reply.outcome),
                                             " under map version ", reply.map_version, ", lane's is ",
                                             view_.map_version(), first));
    }
  }
  lane->records += kExamples;
  ++lane->clock;
  return absl::OkStatus();
}

absl::Status BenchWorker::Impl::Fill() {
  const std::vector<uint32_t> owner(view_.owner().begin(), view_.owner().end());
  BenchLane& lane = lanes_.front();
  for (uint64_t begin = 0; begin < job_.rows; begin += keys_) {
    std::vector<uint64_t> keys;
    for (uint64_t i = begin; i < std::min(job_.rows, begin + keys_); ++i) keys.push_back(BenchKey(i));
    std::vector<BenchShare> shares;
    for (uint32_t s = 0; s < servers_.size(); ++s) shares.push_back(ShareOf(keys, owner, s));
    SHOAL_RETURN_IF_ERROR(Push(&lane, shares));
  }
  return absl::OkStatus();
}

absl::StatusOr<uint64_t> BenchWorker::Impl::Run(int batches, bool push) {
  std::vector<absl::Status> results(lanes_.size());
  std::vector<std::thread> threads;
  for (size_t l = 0; l < lanes_.size(); ++l) {
    threads.emplace_back([&, l] {
      BenchLane& lane = lanes_[l];
      for (int b = 0; b < batches && results[l].ok(); ++b) {
        const std::vector<BenchShare>& shares = lane.batches[static_cast<size_t>(b) % kBatches];
        results[l] = push ? Push(&lane, shares) : Pull(&lane, shares);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& result : results) SHOAL_RETURN_IF_ERROR(result);
  return keys_ * lanes_.size() * static_cast<uint64_t>(batches);
}

absl::StatusOr<std::unique_ptr<BenchWorker>> BenchWorker::Start(const std::string& scheduler, const BenchJob& job,
                                                                uint64_t keys, uint32_t lanes) {
  SHOAL_ASSIGN_OR_RETURN(std::unique_ptr<SchedulerClient> client, ConnectScheduler(scheduler, kTimeout));
  auto impl = std::make_unique<Impl>(std::move(client), job, keys);
  SHOAL_RETURN_IF_ERROR(impl->Start(lanes));
  return std::unique_ptr<BenchWorker>(new BenchWorker(std::move(impl)));
}

BenchWorker::BenchWorker(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
BenchWorker::~BenchWorker() = default;
absl::Status BenchWorker::Fill() { return impl_->Fill(); }
absl::StatusOr<uint64_t> BenchWorker::Pull(int batches) { return impl_->Run(batches, false); }
absl::StatusOr<uint64_t> BenchWorker::Push(int batches) { return impl_->Run(batches, true); }

}  // namespace shoal
