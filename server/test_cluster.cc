#include "server/test_cluster.h"

#include <cstdlib>
#include <filesystem>
#include <utility>

#include "base/random.h"

namespace shoal {

std::string FreshDirectory(const std::string& name) {
  const char* tmp = std::getenv("TEST_TMPDIR");
  const std::string path = std::string(tmp == nullptr ? "/tmp" : tmp) + "/" + name;
  std::filesystem::remove_all(path);
  return path;
}

std::vector<uint64_t> TestSeeds(uint64_t count) {
  const char* text = std::getenv("SHOAL_TEST_SEED");
  if (text != nullptr) return {std::strtoull(text, nullptr, 10)};
  std::vector<uint64_t> seeds;
  for (uint64_t seed = 1; seed <= count; ++seed) seeds.push_back(seed);
  return seeds;
}

JobConfig BspConfig(uint32_t lanes) {
  JobConfig config = TestCluster::DefaultConfig();
  config.mutable_job()->mutable_sync()->mutable_bsp()->set_lanes(lanes);
  config.mutable_job()->mutable_batch()->set_reduce(BatchConfig::MEAN);
  Adagrad* adagrad = config.mutable_job()->mutable_optimizer()->mutable_sparse()->mutable_adagrad();
  adagrad->set_learning_rate(0.3f);
  adagrad->set_epsilon(1e-6f);
  config.mutable_plan()->mutable_model()->mutable_tables(0)->set_init_stddev(0.1f);
  return config;
}

TestBatch BspContribution(uint32_t lane, uint64_t round, uint64_t keys) {
  TestBatch batch;
  batch.lane = lane + 1;
  batch.logical_lane = lane;
  batch.split = lane;
  batch.round = round;
  batch.begin = 4 * round;
  batch.end = 4 * round + 4;
  batch.examples = 3;
  Random random({lane, round});
  for (uint64_t key = 0; key < keys; ++key) {
    if (random.Below(2) == 0) continue;
    batch.rows[key] = {static_cast<float>(random.Normal()), static_cast<float>(random.Normal() * 1e-3)};
  }
  batch.dense = static_cast<float>(random.Normal());
  return batch;
}

JobConfig TestCluster::DefaultConfig() {
  JobConfig config;
  Job* job = config.mutable_job();
  job->set_seed(7);
  job->set_partitions(8);
  job->mutable_data()->set_passes(2);
  job->mutable_optimizer()->mutable_sparse()->mutable_sgd()->set_learning_rate(1);
  job->mutable_optimizer()->mutable_dense()->mutable_sgd()->set_learning_rate(1);
  job->mutable_batch()->set_reduce(BatchConfig::SUM);
  job->mutable_sync()->mutable_asp();
  for (int i = 0; i < 4; ++i) config.mutable_plan()->mutable_train()->add_splits();
  TableSpec* table = config.mutable_plan()->mutable_model()->add_tables();
  table->set_name("t");
  table->set_dim(2);
  TensorSpec* tensor = config.mutable_plan()->mutable_model()->add_tensors();
  tensor->set_name("w");
  tensor->add_shape(3);
  tensor->add_shape(4);
  return config;
}

TestCluster::TestCluster(JobConfig config, int servers, const std::string& restore_from, uint64_t run,
                         const ReplicaConnector& connect, uint32_t round_threads)
    : config_(std::move(config)) {
  view_.set_job(1);
  view_.set_run(run);
  view_.set_map_version(1);
  view_.set_live_version(1);
  view_.set_next_lane(1);
  for (int s = 0; s < servers; ++s) view_.add_servers()->set_process(100 + static_cast<uint64_t>(s));
  for (uint32_t p = 0; p < config_.job().partitions(); ++p) view_.add_owner(p % static_cast<uint32_t>(servers));
  for (int s = 0; s < servers; ++s) {
    ParameterServerOptions options;
    options.name = "server-" + std::to_string(s);
    options.clock = &clock_;
    options.connect = connect ? connect : network_.Connector();
    options.copy_patience = connect ? absl::Seconds(30) : absl::Milliseconds(30);
    options.copies_at_once = connect ? 4 : 1;
    options.round_threads = round_threads;
    options.round_floats = 1;
    servers_.push_back(std::make_unique<ParameterServer>(options));
    network_.Add(100 + static_cast<uint64_t>(s), servers_.back().get());
    prepared_.Update(servers_.back()->PrepareJob(config_, view_, 100 + static_cast<uint64_t>(s), restore_from));
  }
  layout_ = *DenseLayout::Create(config_.plan().model(), config_.job().partitions());
}

PushReply TestCluster::PushTo(int s, const TestBatch& batch) {
  const std::vector<uint32_t> partitions = PartitionsOf(s);
  std::vector<uint64_t> keys;
  std::vector<uint32_t> counts, occurrences;
  std::vector<uint16_t> slots;
  std::vector<float> gradients, dense;
  for (uint32_t partition : partitions) {
    const size_t before = keys.size();
    for (const auto& [key, gradient] : batch.rows) {
      if (PartitionOfKey(key, config_.job().partitions()) != partition) continue;
      keys.push_back(key);
      gradients.insert(gradients.end(), gradient.begin(), gradient.end());
      const auto it = batch.occurrences.find(key);
      occurrences.push_back(it == batch.occurrences.end() ? 1 : it->second);
      const auto slot = batch.slots.find(key);
      slots.push_back(slot == batch.slots.end() ? uint16_t{0} : slot->second);
    }
    counts.push_back(static_cast<uint32_t>(keys.size() - before));
    if (batch.dense != 0) dense.insert(dense.end(), layout_.FloatsOf(partition), batch.dense);
  }
  const std::vector<uint32_t> tables = {0};
  PushRequest request;
  request.header = Header(batch.lane);
  request.pass = batch.pass;
  request.split = batch.split;
  request.lease = batch.lease;
  request.begin = batch.begin;
  request.end = batch.end;
  request.end_of_split = batch.end_of_split;
  request.examples = batch.examples != 0 ? batch.examples : batch.end - batch.begin;
  request.logical_lane = batch.logical_lane;
  request.round = batch.round;
  request.partitions = partitions;
  if (!keys.empty()) request.groups.push_back({keys, counts, tables, {gradients.data()}, occurrences, {}, slots});
  request.dense = dense;
  PushReply reply;
  ++outstanding_;
  server(s).Push(&request, &reply, [this](absl::Status status) {
    SetLast(std::move(status));
    --outstanding_;
  });
  return reply;
}

void TestCluster::Publish(int s, const std::vector<uint64_t>& tasks) {
  for (int i = 0; i < servers(); ++i) {
    ClusterView view;
    *view.add_jobs() = view_;
    for (uint64_t id : tasks) {
      if (i == s) view.add_tasks()->set_id(id);
    }
    server(i).UpdateView(view, 100 + static_cast<uint64_t>(i));
  }
}

absl::Status TestCluster::Copy(Task::Kind kind, uint64_t id, int s, const std::vector<uint32_t>& partitions,
                               int target) {
  Task task;
  task.set_id(id);
  task.set_kind(kind);
  task.set_job(1);
  task.set_run(view_.run());
  task.mutable_partitions()->Add(partitions.begin(), partitions.end());
  *task.mutable_target() = view_.servers(target);
  return kind == Task::ADD_BACKUP ? server(s).AddBackup(task, &report_) : server(s).MovePartitions(task, &report_);
}

void TestCluster::Give(const std::vector<uint32_t>& partitions, int owner) {
  view_.set_map_version(view_.map_version() + 1);
  for (uint32_t p : partitions) view_.set_owner(static_cast<int>(p), static_cast<uint32_t>(owner));
}

void TestCluster::Back(const std::vector<uint32_t>& partitions, int backup) {
  view_.set_map_version(view_.map_version() + 1);
  while (view_.backup_size() < view_.owner_size()) view_.add_backup(0);
  for (uint32_t p : partitions) view_.set_backup(static_cast<int>(p), static_cast<uint32_t>(backup + 1));
}

absl::Status TestCluster::Restore(int s, const std::vector<uint32_t>& partitions, const std::string& path) {
  return server(s).RestorePartitions(config_, view_, 100 + static_cast<uint64_t>(s), partitions, path);
}

std::vector<float> TestCluster::Read(uint64_t key) {
  const uint32_t partition = PartitionOfKey(key, config_.job().partitions());
  std::vector<float> out(config_.plan().model().tables(0).dim());
  const std::vector<uint32_t> partitions = {partition}, counts = {1}, tables = {0};
  const std::vector<uint64_t> keys = {key};
  PullRequest request;
  request.header = Header(0);
  request.read_only = true;
  request.dense = false;
  request.partitions = partitions;
  request.groups.push_back({keys, counts, tables});
  PullReply reply;
  reply.rows = {{out.data()}};
  server(static_cast<int>(view_.owner(static_cast<int>(partition))))
      .Pull(&request, absl::Seconds(1), &reply, [&](absl::Status status) { SetLast(status); });
  return out;
}

absl::StatusOr<std::string> TestCluster::Save(const std::string& dir, const std::string& name, uint64_t sequence,
                                              uint32_t keep, const std::string& parent) {
  CheckpointTask task;
  task.set_dir(dir);
  task.set_name(name);
  task.set_parent(parent);
  Manifest manifest;
  manifest.set_sequence(sequence);
  manifest.set_parent(parent);
  *manifest.mutable_job() = config_.job();
  *manifest.mutable_plan() = config_.plan();
  for (auto& server : servers_) {
    const absl::StatusOr<PartInfo> part = server->WritePart(1, task, absl::Seconds(1));
    if (!part.ok()) return part.status();
    *manifest.add_parts() = *part;
    if (part->done_size() > 0) manifest.set_rounds_applied(part->done(0).rounds_applied());
  }
  for (const auto& [table, sum] : Digest()) {
    TableDigest* digest = manifest.add_digests();
    digest->set_table(table);
    digest->set_sum(sum.first);
    digest->set_rows(sum.second);
  }
  return CommitCheckpoint(dir, name, manifest, keep);
}

}  // namespace shoal
