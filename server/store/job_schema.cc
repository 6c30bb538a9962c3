#include "server/store/job_schema.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/hash.h"
#include "base/status_macros.h"
#include "server/store/key_index.h"

namespace shoal {
namespace {

// A row's stride must fit comfortably into a slab: widest row of job.proto (4096) times what AMSGrad keeps.
constexpr uint32_t kMaxDim = 1 << 20;
// A job file without these fields means its documented defaults.
constexpr uint32_t kDefaultPartitions = 256;
constexpr float kDefaultMaxAbs = 1e6f;

Optimizer WithDefault(const Optimizer& config, bool sparse) {
  Optimizer out = config;
  if (out.kind_case() != Optimizer::KIND_NOT_SET) return out;
  if (sparse) {
    out.mutable_rowwise_adagrad()->set_learning_rate(0.05f);
    out.mutable_rowwise_adagrad()->set_epsilon(1e-8f);
  } else {
    Adam* adam = out.mutable_adam();
    adam->set_learning_rate(0.001f);
    adam->set_beta1(0.9f);
    adam->set_beta2(0.999f);
    adam->set_epsilon(1e-8f);
  }
  return out;
}

absl::Status FillTables(const JobPlan& plan, JobSchema* schema) {
  const ModelSpec& model = plan.model();
  for (const TableSpec& table : model.tables()) {
    if (table.dim() == 0 || table.dim() > kMaxDim) {
      return absl::InvalidArgumentError(
          absl::StrCat("table ", table.name(), ": dim ", table.dim(), ", must be in [1, ", kMaxDim, "]"));
    }
    if (!(table.init_stddev() >= 0 && table.init_stddev() <= 1e6f)) {
      return absl::InvalidArgumentError(
          absl::StrCat("table ", table.name(), ": init_stddev ", table.init_stddev(), ", must be in [0, 1e6]"));
    }
    for (const SparseSchema& other : schema->tables) {
      if (other.name == table.name()) return absl::InvalidArgumentError("table " + table.name() + ": named twice");
    }
    SparseSchema sparse;
    sparse.name = table.name();
    sparse.name_hash = HashBytes(table.name());
    sparse.dim = table.dim();
    sparse.state = static_cast<uint32_t>(schema->sparse_rule->RowStateSize(table.dim()));
    sparse.init_stddev = table.init_stddev();
    schema->tables.push_back(std::move(sparse));
  }
  schema->slots.assign(plan.schema().slots().begin(), plan.schema().slots().end());
  if (schema->slots.size() > KeyIndex::kMaxSlots) {
    return absl::InvalidArgumentError(
        absl::StrCat("plan.schema.slots: ", schema->slots.size(), ", must be at most ", KeyIndex::kMaxSlots));
  }
  schema->tensors.assign(model.tensors().begin(), model.tensors().end());
  SHOAL_ASSIGN_OR_RETURN(schema->layout, DenseLayout::Create(model, schema->partitions));
  return absl::OkStatus();
}

void FillHeader(JobSchema* schema) {
  PartHeader& header = schema->header;
  header.partitions = schema->partitions;
  for (const SparseSchema& table : schema->tables) header.tables.push_back({table.name, table.dim, table.state});
  for (const TensorSpec& tensor : schema->tensors) header.tensors.push_back(tensor.name());
  header.slots = schema->slots;
  schema->shape = HashBytes(EncodePartHeader(header));
}

void FillSync(const Sync& sync, JobSchema* schema) {
  if (sync.has_bsp()) {
    schema->sync = SyncMode::kBsp;
    schema->lanes = sync.bsp().lanes();
  } else if (sync.has_asp()) {
    schema->sync = SyncMode::kAsp;
  } else {
    schema->sync = SyncMode::kSsp;
    schema->staleness = sync.has_ssp() ? sync.ssp().staleness() : 4;
  }
}

}  // namespace

absl::StatusOr<std::shared_ptr<const JobSchema>> JobSchema::Create(const JobConfig& config) {
  const Job& job = config.job();
  auto schema = std::make_shared<JobSchema>();
  schema->seed = job.seed();
  schema->partitions = job.partitions() == 0 ? kDefaultPartitions : job.partitions();
  if (schema->partitions > 65536) {
    return absl::InvalidArgumentError(absl::StrCat("partitions: ", schema->partitions, ", must be in [1, 65536]"));
  }
  schema->passes = std::max<uint64_t>(1, job.data().passes());
  schema->splits = static_cast<uint64_t>(config.plan().train().splits_size());
  SHOAL_ASSIGN_OR_RETURN(schema->sparse_rule, UpdateRule::Create(WithDefault(job.optimizer().sparse(), true)));
  SHOAL_ASSIGN_OR_RETURN(schema->dense_rule, UpdateRule::Create(WithDefault(job.optimizer().dense(), false)));
  SHOAL_RETURN_IF_ERROR(FillTables(config.plan(), schema.get()));
  schema->mean = job.batch().reduce() == BatchConfig::MEAN;
  schema->guard = !job.guard().off();
  schema->max_abs = job.guard().max_abs() > 0 ? job.guard().max_abs() : kDefaultMaxAbs;
  schema->min_count = std::max<uint32_t>(1, job.admission().min_count());
  if (schema->min_count > KeyIndex::kMaxCount + 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("admission.min_count: ", schema->min_count, ", must be in [1, ", KeyIndex::kMaxCount + 1, "]"));
  }
  schema->expiry = Expiry(job.ttl().examples());
  schema->warm_start = job.warm_start();
  schema->optimizer = job.optimizer();
  schema->delta_checkpoints = job.checkpoint().full_every() > 1;
  schema->soft_limit_bytes = job.memory().soft_limit();
  schema->hard_limit_bytes = job.memory().hard_limit();
  FillSync(job.sync(), schema.get());
  if (schema->sync == SyncMode::kBsp && (schema->lanes == 0 || schema->lanes > 65536)) {
    return absl::InvalidArgumentError(absl::StrCat("sync.bsp.lanes: ", schema->lanes, ", must be in [1, 65536]"));
  }
  FillHeader(schema.get());
  return std::shared_ptr<const JobSchema>(std::move(schema));
}

}  // namespace shoal
