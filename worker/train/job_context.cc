#include "worker/train/job_context.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace shoal {
namespace {

bool SameSpec(const ModelSpec& a, const ModelSpec& b) { return a.SerializeAsString() == b.SerializeAsString(); }

}  // namespace

absl::StatusOr<std::shared_ptr<JobContext>> JobContext::Create(uint64_t job, JobConfig config, Connect connect) {
  SHOAL_ASSIGN_OR_RETURN(DenseLayout layout, DenseLayout::Create(config.plan().model(), config.job().partitions()));
  std::shared_ptr<JobContext> context(new JobContext(job, std::move(config), std::move(connect), std::move(layout)));
  const JobPlan& plan = context->plan();
  SHOAL_ASSIGN_OR_RETURN(context->model_, ModelGraph::Create(context->config(), plan.schema()));
  if (!SameSpec(context->model_->spec(), plan.model())) {
    return absl::FailedPreconditionError(
        "the model that this worker builds differs from the one that the job was planned with; do all workers run the "
        "same version of shoal?");
  }
  DataSetOptions options;
  options.seed = context->config().seed();
  options.binary_labels = context->model_->loss() == Model::BINARY_CROSS_ENTROPY;
  SHOAL_ASSIGN_OR_RETURN(context->train_data_,
                         DataSet::Open(context->config().data(), plan.train(), plan.schema(), options));
  return context;
}

absl::Status JobContext::UpdateView(const JobView& view) {
  std::vector<std::shared_ptr<ParameterClient>> gone;
  const absl::Status status = TakeMap(view, &gone);
  for (const std::shared_ptr<ParameterClient>& client : gone) client->Abort(ParameterClient::Calls::kAll);
  return status;
}

absl::Status JobContext::TakeMap(const JobView& view, std::vector<std::shared_ptr<ParameterClient>>* gone) {
  MutexLock lock(&mu_);
  if (routes_ != nullptr && (routes_->version >= view.map_version() || view.owner_size() == 0)) return absl::OkStatus();
  std::vector<std::vector<uint32_t>> owned(static_cast<size_t>(view.servers_size()));
  if (view.owner_size() != static_cast<int>(config().partitions())) {
    return absl::InvalidArgumentError(
        absl::StrCat("map: ", view.owner_size(), " owners, must be ", config().partitions()));
  }
  for (int p = 0; p < view.owner_size(); ++p) {
    if (view.owner(p) >= owned.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat("map: owner of partition ", p, " is ", view.owner(p), ", must be below ", owned.size()));
    }
    owned[view.owner(p)].push_back(static_cast<uint32_t>(p));
  }
  auto routes = std::make_shared<RouteMap>();
  routes->version = view.map_version();
  std::map<uint64_t, std::shared_ptr<ParameterClient>> clients;
  for (int s = 0; s < view.servers_size(); ++s) {
    if (owned[s].empty()) continue;
    const ServerAddress& address = view.servers(s);
    std::shared_ptr<ParameterClient>& client = clients[address.process()];
    const auto known = clients_.find(address.process());
    if (known != clients_.end()) {
      client = known->second;
    } else {
      SHOAL_ASSIGN_OR_RETURN(client, connect_(address));
    }
    routes->servers.push_back({address.process(), client, std::move(owned[s])});
  }
  for (const auto& [process, client] : clients_) {
    if (clients.count(process) == 0) gone->push_back(client);
  }
  clients_ = std::move(clients);
  routes_ = std::move(routes);
  return absl::OkStatus();
}

std::shared_ptr<const RouteMap> JobContext::routes() const {
  MutexLock lock(&mu_);
  return routes_;
}

void JobContext::Abort(ParameterClient::Calls calls) {
  std::vector<std::shared_ptr<ParameterClient>> all;
  {
    MutexLock lock(&mu_);
    for (const auto& [process, client] : clients_) all.push_back(client);
  }
  for (const std::shared_ptr<ParameterClient>& client : all) client->Abort(calls);
}

absl::StatusOr<DataSet*> JobContext::EvalData() {
  MutexLock lock(&eval_mu_);
  if (eval_data_ == nullptr) {
    DataSetOptions options;
    options.seed = config().seed();
    options.binary_labels = model_->loss() == Model::BINARY_CROSS_ENTROPY;
    options.shuffle = false;
    SHOAL_ASSIGN_OR_RETURN(eval_data_, DataSet::Open(config().data(), plan().eval(), plan().schema(), options));
  }
  return eval_data_.get();
}

}  // namespace shoal
