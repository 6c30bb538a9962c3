#include "local/local_cluster.h"

#include <algorithm>
#include <atomic>
#include <map>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/mutex.h"
#include "base/status_macros.h"
#include "local/local_clients.h"

namespace shoal {
namespace {

constexpr absl::Duration kStartTimeout = absl::Seconds(10);
constexpr auto kTickEvery = std::chrono::milliseconds(20);

}  // namespace

class LocalCluster::Impl {
 public:
  explicit Impl(const LocalClusterOptions& options) : options_(options) {}
  ~Impl();

  absl::Status Start();
  absl::Status AddWorker();
  // Expired when there is none.
  std::weak_ptr<ParameterServer> FindServer(const std::string& address) {
    MutexLock lock(&mu_);
    const auto it = by_address_.find(address);
    return it == by_address_.end() ? std::weak_ptr<ParameterServer>() : it->second;
  }
  SchedulerClient* scheduler() { return client_.get(); }
  WorkerAgent* worker(int index) {
    MutexLock lock(&mu_);
    return workers_[static_cast<size_t>(index)].get();
  }
  absl::Status AddServer(const std::string& name);
  void KillServer(int index);
  bool ServerEnded(int index, absl::Status* reason) {
    MutexLock lock(&mu_);
    return servers_[static_cast<size_t>(index)].agent->Ended(reason);
  }
  ParameterServer* server(int index) {
    MutexLock lock(&mu_);
    return servers_[static_cast<size_t>(index)].server.get();
  }

 private:
  // The agent goes first.
  struct LocalServer {
    std::shared_ptr<ParameterServer> server;
    std::unique_ptr<ServerAgent> agent;
  };

  const LocalClusterOptions options_;
  std::unique_ptr<Scheduler> scheduler_;
  std::unique_ptr<SchedulerClient> client_;
  Mutex mu_;
  std::vector<LocalServer> servers_ ABSL_GUARDED_BY(mu_);
  uint64_t next_address_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<std::string, std::weak_ptr<ParameterServer>> by_address_ ABSL_GUARDED_BY(mu_);
  std::vector<std::unique_ptr<WorkerAgent>> workers_ ABSL_GUARDED_BY(mu_);
  std::atomic<bool> stop_{false};
  std::thread ticker_;
};

absl::Status LocalCluster::Impl::Start() {
  SchedulerOptions scheduler_options;
  scheduler_options.heartbeat = options_.heartbeat;
  scheduler_options.deadline = options_.deadline;
  SHOAL_ASSIGN_OR_RETURN(scheduler_, Scheduler::Create(scheduler_options));
  client_ = NewLocalSchedulerClient(scheduler_.get());
  ticker_ = std::thread([this] {
    while (!stop_) {
      scheduler_->Tick();
      std::this_thread::sleep_for(kTickEvery);
    }
  });
  for (int s = 0; s < options_.servers; ++s) SHOAL_RETURN_IF_ERROR(AddServer(absl::StrCat("server-", s)));
  for (int w = 0; w < options_.workers; ++w) SHOAL_RETURN_IF_ERROR(AddWorker());
  return absl::OkStatus();
}

absl::Status LocalCluster::Impl::AddServer(const std::string& name) {
  ParameterServerOptions server_options;
  server_options.name = name;
  // As many as compute: whoever gave `shoal train` two threads wants no more to be busy.
  server_options.round_threads = std::max(1u, options_.threads * static_cast<uint32_t>(std::max(1, options_.workers)));
  server_options.connect = [this](const ServerAddress& to) -> absl::StatusOr<std::unique_ptr<ReplicaClient>> {
    return NewLocalReplicaClient(FindServer(to.address()));
  };
  LocalServer server;
  server.server = std::make_shared<ParameterServer>(server_options);
  ServerAgentOptions agent_options;
  agent_options.name = name;
  agent_options.server = server.server.get();
  agent_options.scheduler = client_.get();
  {
    MutexLock lock(&mu_);
    agent_options.address = absl::StrCat("local:", next_address_++);
    by_address_[agent_options.address] = server.server;
  }
  SHOAL_ASSIGN_OR_RETURN(server.agent, ServerAgent::Start(agent_options, kStartTimeout));
  MutexLock lock(&mu_);
  servers_.push_back(std::move(server));
  return absl::OkStatus();
}

void LocalCluster::Impl::KillServer(int index) {
  LocalServer server;
  {
    MutexLock lock(&mu_);
    server = std::move(servers_[static_cast<size_t>(index)]);
  }
  // Calls to it fail from here on; those that are parked are answered by the end of the server.
  if (server.agent != nullptr) server.agent->Kill();
  server.agent.reset();
}

absl::Status LocalCluster::Impl::AddWorker() {
  int index = 0;
  {
    MutexLock lock(&mu_);
    index = static_cast<int>(workers_.size());
  }
  WorkerOptions worker_options;
  worker_options.name = absl::StrCat("worker-", index);
  worker_options.threads = options_.threads;
  worker_options.scheduler = client_.get();
  worker_options.request_timeout = options_.request_timeout;
  worker_options.pull_ahead = options_.pull_ahead;
  if (options_.before_batch) {
    worker_options.before_batch = [hook = options_.before_batch, index](uint32_t thread, uint64_t batches) {
      hook(index, thread, batches);
    };
  }
  worker_options.connect = [this,
                            index](const ServerAddress& address) -> absl::StatusOr<std::unique_ptr<ParameterClient>> {
    std::unique_ptr<ParameterClient> client = NewLocalParameterClient(FindServer(address.address()));
    return options_.wrap ? options_.wrap(index, std::move(client)) : std::move(client);
  };
  SHOAL_ASSIGN_OR_RETURN(std::unique_ptr<WorkerAgent> worker, WorkerAgent::Start(worker_options, kStartTimeout));
  MutexLock lock(&mu_);
  workers_.push_back(std::move(worker));
  return absl::OkStatus();
}

LocalCluster::Impl::~Impl() {
  // Parked calls end at once when everybody is told to go.
  if (scheduler_ != nullptr) scheduler_->ShutdownCluster();
  std::vector<LocalServer> servers;
  {
    MutexLock lock(&mu_);
    for (std::unique_ptr<WorkerAgent>& worker : workers_) worker->Kill();
    servers.swap(servers_);
  }
  for (LocalServer& server : servers) {
    if (server.agent != nullptr) server.agent->Kill();
  }
  stop_ = true;
  if (ticker_.joinable()) ticker_.join();
}

absl::StatusOr<std::unique_ptr<LocalCluster>> LocalCluster::Start(const LocalClusterOptions& options) {
  auto impl = std::make_unique<Impl>(options);
  SHOAL_RETURN_IF_ERROR(impl->Start());
  return std::unique_ptr<LocalCluster>(new LocalCluster(std::move(impl)));
}

LocalCluster::LocalCluster(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
LocalCluster::~LocalCluster() = default;
SchedulerClient* LocalCluster::scheduler() { return impl_->scheduler(); }
void LocalCluster::KillWorker(int worker) { impl_->worker(worker)->Kill(); }
absl::Status LocalCluster::DrainWorker(int worker, absl::Duration grace) { return impl_->worker(worker)->Drain(grace); }
absl::Status LocalCluster::AddWorker() { return impl_->AddWorker(); }
void LocalCluster::KillServer(int server) { impl_->KillServer(server); }
absl::Status LocalCluster::AddServer(const std::string& name) { return impl_->AddServer(name); }
bool LocalCluster::ServerEnded(int server, absl::Status* reason) { return impl_->ServerEnded(server, reason); }
ParameterServer* LocalCluster::server(int index) { return impl_->server(index); }

}  // namespace shoal
