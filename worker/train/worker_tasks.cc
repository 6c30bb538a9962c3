#include "worker/train/worker_tasks.h"

#include <fcntl.h>
#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <functional>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/machine.h"
#include "base/status_macros.h"
#include "proto/wire/dense_layout.h"
#include "worker/data/data_set.h"
#include "worker/model/model.h"

namespace shoal {
namespace {

absl::Status CheckReadable(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  char byte;
  if (file < 0 || read(file, &byte, 1) < 0) {
    const int error = errno;
    if (file >= 0) close(file);
    return absl::InvalidArgumentError(absl::StrCat("cannot read ", path, ": ", std::strerror(error)));
  }
  close(file);
  return absl::OkStatus();
}

// Calls `visit` with each file that an input stands for.
absl::Status ForEachFile(const Input& input, const std::function<absl::Status(const std::string&)>& visit) {
  glob_t found = {};
  const int result = glob(input.path().c_str(), 0, nullptr, &found);
  absl::Status status;
  if (result == GLOB_NOMATCH || found.gl_pathc == 0) {
    status = absl::InvalidArgumentError(absl::StrCat("no file matches ", input.path()));
  } else if (result != 0) {
    status = absl::InvalidArgumentError(absl::StrCat("cannot list ", input.path()));
  }
  for (size_t i = 0; status.ok() && i < found.gl_pathc; ++i) status = visit(found.gl_pathv[i]);
  globfree(&found);
  return status;
}

// A lane holds the dense tensors and their gradients. What cannot fit is refused while the error can still say why.
absl::Status CheckFitsMemory(const ModelSpec& model) {
  double all = 0, largest = 0;
  const TensorSpec* culprit = nullptr;
  for (const TensorSpec& tensor : model.tensors()) {
    double values = 1;
    for (const uint64_t extent : tensor.shape()) values *= static_cast<double>(extent);
    all += values;
    if (values <= largest) continue;
    largest = values;
    culprit = &tensor;
  }
  const double bytes = 2 * sizeof(float) * all;
  const double memory = static_cast<double>(MemoryBytes());
  if (bytes <= memory) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("model: its tensors have ", all, " values; they and their gradients take ", bytes / 1e9,
                   " GB on each lane, this machine has ", memory / 1e9, " GB; the largest is \"", culprit->name(),
                   "\" of shape [", absl::StrJoin(culprit->shape(), ", "), "]"));
}

}  // namespace

absl::StatusOr<ModelSpec> PlanModel(const Job& job, const FeatureSchema& schema) {
  SHOAL_ASSIGN_OR_RETURN(const std::unique_ptr<ModelGraph> model, ModelGraph::Create(job, schema));
  SHOAL_RETURN_IF_ERROR(CheckFitsMemory(model->spec()));
  SHOAL_RETURN_IF_ERROR(DenseLayout::Create(model->spec(), job.partitions()).status());
  return model->spec();
}

absl::StatusOr<JobPlan> PlanJob(const Job& job) {
  JobPlan plan;
  SHOAL_ASSIGN_OR_RETURN(*plan.mutable_train(), PlanInputs(job.data(), InputKind::kTrain, job.batch().size()));
  if (job.data().eval_size() > 0 || job.data().format().synthetic().eval_rows() > 0) {
    SHOAL_ASSIGN_OR_RETURN(*plan.mutable_eval(), PlanInputs(job.data(), InputKind::kEval, job.batch().size()));
  }
  SHOAL_ASSIGN_OR_RETURN(*plan.mutable_schema(), MakeSchema(job.data(), plan.train()));
  SHOAL_ASSIGN_OR_RETURN(*plan.mutable_model(), PlanModel(job, plan.schema()));
  return plan;
}

absl::StatusOr<uint64_t> AddFileBytes(const Input& input, uint64_t bytes) {
  SHOAL_RETURN_IF_ERROR(ForEachFile(input, [&bytes](const std::string& path) {
    struct stat info;
    if (stat(path.c_str(), &info) != 0) {
      return absl::InvalidArgumentError(absl::StrCat("cannot read ", path, ": ", std::strerror(errno)));
    }
    bytes += static_cast<uint64_t>(info.st_size);
    return absl::OkStatus();
  }));
  return bytes;
}

absl::Status CheckInputs(const Job& job) {
  for (const Input& input : job.data().train()) SHOAL_RETURN_IF_ERROR(ForEachFile(input, CheckReadable));
  for (const Input& input : job.data().eval()) SHOAL_RETURN_IF_ERROR(ForEachFile(input, CheckReadable));
  return absl::OkStatus();
}

}  // namespace shoal
