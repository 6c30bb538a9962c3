// What a worker's lanes share about one job: its configuration, model, data and current map.
#ifndef SHOAL_WORKER_TRAIN_JOB_CONTEXT_H_
#define SHOAL_WORKER_TRAIN_JOB_CONTEXT_H_

#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "base/mutex.h"
#include "proto/scheduler.pb.h"
#include "proto/wire/dense_layout.h"
#include "worker/data/data_set.h"
#include "worker/model/model.h"
#include "worker/train/route_map.h"

namespace shoal {

// Thread-safe.
class JobContext {
 public:
  using Connect = std::function<absl::StatusOr<std::unique_ptr<ParameterClient>>(const ServerAddress&)>;

  // Opens the inputs and builds the model; FAILED_PRECONDITION when the model differs from the plan's.
  static absl::StatusOr<std::shared_ptr<JobContext>> Create(uint64_t job, JobConfig config, Connect connect);

  // Takes over a newer map; connects to servers that are new in it and gives up the calls to those that own nothing any
  // more, so that no lane waits for the answer of a dead one.
  absl::Status UpdateView(const JobView& view);
  // The newest map; null before the first view.
  std::shared_ptr<const RouteMap> routes() const;
  // Ends pulls or all calls, in flight and to come (ParameterClient::Abort): the worker is stopping.
  void Abort(ParameterClient::Calls calls);
  // Opens the evaluation inputs on first use.
  absl::StatusOr<DataSet*> EvalData();

  uint64_t job() const { return job_; }
  const Job& config() const { return config_.job(); }
  const JobPlan& plan() const { return config_.plan(); }
  const ModelGraph& model() const { return *model_; }
  const DenseLayout& layout() const { return layout_; }
  DataSet& train_data() { return *train_data_; }
  // Batches of passes: number of splits in each pass.
  uint64_t splits() const { return static_cast<uint64_t>(config_.plan().train().splits_size()); }

 private:
  JobContext(uint64_t job, JobConfig config, Connect connect, DenseLayout layout)
      : job_(job), config_(std::move(config)), connect_(std::move(connect)), layout_(std::move(layout)) {}

  // *gone: connections that the new map does not need.
  absl::Status TakeMap(const JobView& view, std::vector<std::shared_ptr<ParameterClient>>* gone);

  const uint64_t job_;
  const JobConfig config_;
  const Connect connect_;
  const DenseLayout layout_;
  std::unique_ptr<ModelGraph> model_;
  std::unique_ptr<DataSet> train_data_;

  mutable Mutex mu_;
  std::shared_ptr<const RouteMap> routes_ ABSL_GUARDED_BY(mu_);
  std::map<uint64_t, std::shared_ptr<ParameterClient>> clients_ ABSL_GUARDED_BY(mu_);  // by server process
  Mutex eval_mu_;  // held while the evaluation inputs are opened
  std::unique_ptr<DataSet> eval_data_ ABSL_GUARDED_BY(eval_mu_);
};

}  // namespace shoal

#endif  // SHOAL_WORKER_TRAIN_JOB_CONTEXT_H_
