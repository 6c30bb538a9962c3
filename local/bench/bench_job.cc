#include "local/bench/bench_job.h"

#include <algorithm>

#include "absl/container/flat_hash_set.h"
#include "base/check.h"
#include "base/hash.h"
#include "base/random.h"
#include "base/status_macros.h"

namespace shoal {
namespace {

void SetOptimizer(const std::string& name, Optimizer* optimizer) {
  if (name == "sgd") optimizer->mutable_sgd()->set_learning_rate(0.05f);
  if (name == "momentum") optimizer->mutable_momentum()->set_learning_rate(0.05f);
  if (name == "adagrad") optimizer->mutable_adagrad()->set_learning_rate(0.05f);
  if (name == "rowwise_adagrad") optimizer->mutable_rowwise_adagrad()->set_learning_rate(0.05f);
  Adam* adam = name == "adam" ? optimizer->mutable_adam() : name == "amsgrad" ? optimizer->mutable_amsgrad() : nullptr;
  if (adam != nullptr) {
    adam->set_learning_rate(0.001f);
    adam->set_beta1(0.9f);
    adam->set_beta2(0.999f);
    adam->set_epsilon(1e-8f);
  }
  if (name == "ftrl") {
    optimizer->mutable_ftrl()->set_learning_rate(0.05f);
    optimizer->mutable_ftrl()->set_beta(1);
  }
  SHOAL_CHECK(optimizer->kind_case() != Optimizer::KIND_NOT_SET);
}

}  // namespace

uint64_t BenchKey(uint64_t i) { return Mix64(i + 1); }

absl::Status PushAllKeys(const BenchJob& job, absl::FunctionRef<absl::Status(const std::vector<uint64_t>& keys)> push) {
  std::vector<uint64_t> keys;
  for (uint64_t at = 0; at < job.rows; at += keys.size()) {
    keys.clear();
    for (uint64_t i = at; i < std::min<uint64_t>(job.rows, at + 32 * kBenchKeys); ++i) keys.push_back(BenchKey(i));
    SHOAL_RETURN_IF_ERROR(push(keys));
  }
  return absl::OkStatus();
}

JobConfig MakeBenchConfig(const BenchJob& job) {
  JobConfig config;
  config.mutable_job()->set_seed(1);
  config.mutable_job()->set_partitions(job.partitions);
  config.mutable_job()->mutable_data()->set_passes(1);
  config.mutable_job()->mutable_sync()->mutable_asp();
  SetOptimizer(job.optimizer, config.mutable_job()->mutable_optimizer()->mutable_sparse());
  for (int i = 0; i < kBenchSplits; ++i) config.mutable_plan()->mutable_train()->add_splits();
  TableSpec* table = config.mutable_plan()->mutable_model()->add_tables();
  table->set_name("bench");
  table->set_dim(job.dim);
  table->set_init_stddev(0.01f);
  return config;
}

BenchShare ShareOf(absl::Span<const uint64_t> keys, absl::Span<const uint32_t> owner, uint32_t server) {
  const auto partitions = static_cast<uint32_t>(owner.size());
  std::vector<std::vector<uint64_t>> by_partition(partitions);
  for (uint64_t key : keys) by_partition[PartitionOfKey(key, partitions)].push_back(key);
  BenchShare share;
  for (uint32_t p = 0; p < partitions; ++p) {
    if (owner[p] != server) continue;
    share.partitions.push_back(p);
    share.counts.push_back(static_cast<uint32_t>(by_partition[p].size()));
    share.keys.insert(share.keys.end(), by_partition[p].begin(), by_partition[p].end());
  }
  return share;
}

std::vector<uint64_t> UniformKeys(const BenchJob& job, uint64_t count, uint64_t seed) {
  SHOAL_CHECK(count <= job.rows);
  Random random({seed, job.rows});
  absl::flat_hash_set<uint64_t> seen;
  std::vector<uint64_t> keys;
  while (keys.size() < count) {
    const uint64_t i = static_cast<uint64_t>((static_cast<unsigned __int128>(random.Next()) * job.rows) >> 64);
    if (seen.insert(i).second) keys.push_back(BenchKey(i));
  }
  return keys;
}

}  // namespace shoal
