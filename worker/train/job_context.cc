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
  MutexLock lock(&mu_);
  run_ = std::max<uint64_t>(run_, view.run());
  if (routes_ != nullptr && routes_->version >= view.map_version()) return absl::OkStatus();
  auto routes = std::make_shared<RouteMap>();
  routes->version = view.map_version();
  for (const ServerAddress& address : view.servers()) {
    std::shared_ptr<ParameterClient>& client = clients_[address.process()];
    if (client == nullptr) {
      SHOAL_ASSIGN_OR_RETURN(client, connect_(address));
    }
    routes->servers.push_back({address.process(), client, {}});
  }
  if (view.owner_size() != static_cast<int>(config().partitions())) {
    return absl::InvalidArgumentError(
        absl::StrCat("map: ", view.owner_size(), " owners, must be ", config().partitions()));
  }
  for (int p = 0; p < view.owner_size(); ++p) {
    if (view.owner(p) >= routes->servers.size()) {
      return absl::InvalidArgumentError(absl::StrCat("map: owner of partition ", p, " is ", view.owner(p),
                                                     ", must be below ", routes->servers.size()));
    }
    routes->servers[view.owner(p)].partitions.push_back(static_cast<uint32_t>(p));
  }
  routes_ = std::move(routes);
  return absl::OkStatus();
}

std::shared_ptr<const RouteMap> JobContext::routes() const {
  MutexLock lock(&mu_);
  return routes_;
}

uint64_t JobContext::run() const {
  MutexLock lock(&mu_);
  return run_;
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
