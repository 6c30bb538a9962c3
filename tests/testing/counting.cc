#include "tests/testing/counting.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "server/checkpoint/checkpoint.h"
#include "worker/data/data_set.h"
#include "worker/model/model.h"
#include "worker/routing/router.h"
#include "worker/train/worker_tasks.h"

namespace shoal {
namespace {

constexpr uint32_t kOnePartition = 1;

// Runs the counting model over one batch and adds its gradients.
absl::Status AddGradients(const ModelGraph& model, const Batch& batch, Router* router, ModelWorkspace* workspace,
                          Counts* counts) {
  const size_t dim = model.spec().tables(0).dim();
  std::vector<KeyGroup> groups(1);
  router->Route(batch, &groups[0]);
  std::vector<float> rows(groups[0].keys.size() * dim), gradients(rows.size());
  std::vector<float> tensor(dim), tensor_gradient(dim);
  StepArgs args;
  args.batch = &batch;
  args.groups = groups;
  args.rows = {rows.data()};
  args.row_gradients = {gradients.data()};
  args.tensors = {tensor.data()};
  args.tensor_gradients = {tensor_gradient.data()};
  SHOAL_RETURN_IF_ERROR(model.Train(args, workspace).status());
  for (size_t k = 0; k < groups[0].keys.size(); ++k) {
    std::vector<float>& row = counts->rows[groups[0].keys[k]];
    row.resize(dim);
    for (size_t d = 0; d < dim; ++d) row[d] += gradients[k * dim + d];
  }
  for (size_t d = 0; d < dim; ++d) counts->dense[d] += tensor_gradient[d];
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<Counts> ExpectedCounts(const Job& job) {
  SHOAL_ASSIGN_OR_RETURN(JobPlan plan, PlanJob(job));
  SHOAL_ASSIGN_OR_RETURN(std::unique_ptr<ModelGraph> model, ModelGraph::Create(job, plan.schema()));
  DataSetOptions options;
  options.shuffle = false;
  SHOAL_ASSIGN_OR_RETURN(std::unique_ptr<DataSet> data,
                         DataSet::Open(job.data(), plan.train(), plan.schema(), options));
  Counts counts;
  counts.dense.resize(model->spec().tables(0).dim());
  Router router(model->groups()[0], kOnePartition);
  std::unique_ptr<ModelWorkspace> workspace = model->NewWorkspace();
  Batch batch;
  for (int split = 0; split < plan.train().splits_size(); ++split) {
    SHOAL_ASSIGN_OR_RETURN(std::unique_ptr<SplitReader> reader, data->OpenSplit(0, static_cast<uint64_t>(split), 0));
    do {
      SHOAL_RETURN_IF_ERROR(reader->Next(1000, &batch));
      SHOAL_RETURN_IF_ERROR(AddGradients(*model, batch, &router, workspace.get(), &counts));
    } while (!batch.end_of_split);
  }
  const float passes = static_cast<float>(job.data().passes());
  for (auto& [key, row] : counts.rows) {
    for (float& value : row) value *= passes;
  }
  for (float& value : counts.dense) value *= passes;
  return counts;
}

absl::StatusOr<Counts> CheckpointCounts(const Job& job) {
  std::string dir;
  SHOAL_RETURN_IF_ERROR(ReadManifest(job.checkpoint().dir(), &dir).status());
  Counts counts;
  SHOAL_RETURN_IF_ERROR(VisitRows(dir, [&](const CheckpointRow& row) {
    const std::vector<float> weights(row.weights.begin(), row.weights.end());
    if (row.dense) {
      counts.dense = weights;
    } else {
      counts.rows[row.key] = weights;
    }
  }));
  return counts;
}

std::string CountsDifference(const Counts& expected, const Counts& actual) {
  if (expected.dense != actual.dense) {
    return absl::StrCat("dense: expected ", absl::StrJoin(expected.dense, " "), ", got ",
                        absl::StrJoin(actual.dense, " "));
  }
  for (const auto& [key, row] : expected.rows) {
    auto found = actual.rows.find(key);
    if (found == actual.rows.end()) return absl::StrCat("key ", key, " is missing");
    if (found->second != row) {
      return absl::StrCat("key ", key, ": expected ", absl::StrJoin(row, " "), ", got ",
                          absl::StrJoin(found->second, " "));
    }
  }
  if (expected.rows.size() != actual.rows.size()) {
    return absl::StrCat("expected ", expected.rows.size(), " rows, got ", actual.rows.size());
  }
  return "";
}

}  // namespace shoal
