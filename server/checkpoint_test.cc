#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "server/test_cluster.h"

namespace shoal {
namespace {

namespace fs = std::filesystem;

JobConfig Config() {
  JobConfig config = TestCluster::DefaultConfig();
  Optimizer* sparse = config.mutable_job()->mutable_optimizer()->mutable_sparse();
  sparse->mutable_adam()->set_learning_rate(0.1f);
  sparse->mutable_adam()->set_beta1(0.9f);
  sparse->mutable_adam()->set_beta2(0.99f);
  sparse->mutable_adam()->set_epsilon(1e-8f);
  sparse->mutable_schedule()->mutable_cosine()->set_length_examples(1000);
  config.mutable_job()->mutable_optimizer()->mutable_dense()->mutable_momentum()->set_learning_rate(0.1f);
  config.mutable_job()->mutable_optimizer()->mutable_dense()->mutable_momentum()->set_momentum(0.9f);
  config.mutable_job()->mutable_admission()->set_min_count(2);
  config.mutable_plan()->mutable_model()->mutable_tables(0)->set_init_stddev(0.5f);
  config.mutable_plan()->mutable_model()->mutable_tensors(0)->set_init(TensorSpec::GLOROT_UNIFORM);
  config.mutable_plan()->mutable_schema()->add_slots("even");
  config.mutable_plan()->mutable_schema()->add_slots("odd");
  return config;
}

TestBatch Batch(uint64_t number) {
  TestBatch batch;
  batch.begin = number * 10;
  batch.end = number * 10 + 10;
  for (uint64_t key = number; key < number + 30; ++key) {
    batch.slots[key * 0x9e3779b97f4a7c15ULL] = static_cast<uint16_t>(key % 2);
    batch.rows[key * 0x9e3779b97f4a7c15ULL] = {static_cast<float>(key), -1.0f / static_cast<float>(key + 1)};
  }
  batch.dense = 0.5f + static_cast<float>(number);
  return batch;
}

// Rows, keys and bytes by slot over the servers.
std::map<uint32_t, std::vector<uint64_t>> Slots(TestCluster* cluster) {
  std::map<uint32_t, std::vector<uint64_t>> out;
  for (int s = 0; s < cluster->servers(); ++s) {
    const ServerJobReport report = cluster->server(s).Report(1);
    for (const SlotReport& slot : report.slots()) {
      CHECK(slot.table_index() == 0);
      std::vector<uint64_t>& sums = out[slot.slot_index()];
      sums.resize(3);
      sums[0] += slot.rows();
      sums[1] += slot.keys();
      sums[2] += slot.bytes();
    }
  }
  return out;
}

std::string ReadFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

void WriteFile(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}

TEST_CASE("Checkpoint: 2 servers, then 1, then 3: same digest, and training goes on with the same bits",
          "[server][unit]") {
  const std::string dir = FreshDirectory("roundtrip");
  TestCluster two(Config(), 2);
  for (uint64_t b = 0; b < 4; ++b) two.Push(Batch(b));
  const absl::StatusOr<std::string> first = two.Save(dir, "a", 1);
  REQUIRE(first.ok());
  TestCluster one(Config(), 1, *first, 2);
  REQUIRE(one.prepared().ok());
  CHECK(one.Digest() == two.Digest());
  // Keys 0 to 32, of which 1 to 31 were pushed twice; a row is dim 2 and 5 floats of state, an index cell 16 bytes.
  using SlotSums = std::map<uint32_t, std::vector<uint64_t>>;
  CHECK(Slots(&two) == SlotSums{{0, {15, 17, 15 * 28 + 17 * 16}}, {1, {16, 16, 16 * 28 + 16 * 16}}});
  CHECK(Slots(&one) == Slots(&two));
  CHECK(one.Open(1, 1, 0).watermarks == std::vector<uint64_t>{40});
  const absl::StatusOr<std::string> second = one.Save(dir, "b", 2);
  REQUIRE(second.ok());
  TestCluster three(Config(), 3, dir, 3);  // the newest of the directory
  REQUIRE(three.prepared().ok());
  for (TestCluster* cluster : {&one, &two, &three}) {
    for (uint64_t b = 4; b < 8; ++b) {
      TestBatch batch = Batch(b);
      batch.end_of_split = b == 7;
      cluster->Push(batch);
      CHECK(cluster->last().ok());
    }
  }
  CHECK(two.Digest().at("t").second == 35);  // keys 1..35 were pushed twice, 0 and 36 once
  CHECK(one.Digest() == two.Digest());
  CHECK(three.Digest() == two.Digest());
  CHECK(three.server(2).ReportDone(1)->at(0).prefix() == 1);
  CHECK(VerifyCheckpoint(*first).ok());
  uint64_t rows = 0, blocks = 0;
  CHECK(VisitRows(*second, [&](const CheckpointRow& row) {
          (row.dense ? blocks : rows) += 1;
          CHECK((row.dense || row.slot == "even" || row.slot == "odd"));
          CHECK(row.weights.size() == (row.dense ? 12 : 2));
          CHECK(row.state.size() == (row.dense ? 12 : 5));
        }).ok());
  CHECK(blocks == 1);
  CHECK(rows == one.Digest().at("t").second - 4);
}

TEST_CASE("Checkpoint: what does not fit the job is named", "[server][unit]") {
  TestCluster cluster(Config(), 2);
  cluster.Push(Batch(0));
  const absl::StatusOr<std::string> path = cluster.Save(FreshDirectory("mismatch"), "a");
  REQUIRE(path.ok());
  const auto refused = [&](const char* what, auto change) {
    JobConfig config = Config();
    change(&config);
    const absl::Status status = TestCluster(config, 1, *path).prepared();
    INFO(status.ToString());
    CHECK(status.code() == absl::StatusCode::kInvalidArgument);
    CHECK(status.message().find(what) != absl::string_view::npos);
  };
  refused("dim 2", [](JobConfig* c) { c->mutable_plan()->mutable_model()->mutable_tables(0)->set_dim(3); });
  refused("has t", [](JobConfig* c) { c->mutable_plan()->mutable_model()->mutable_tables(0)->set_name("u"); });
  refused("has w", [](JobConfig* c) { c->mutable_plan()->mutable_model()->mutable_tensors(0)->set_name("v"); });
  refused("slot 1: the checkpoint has odd",
          [](JobConfig* c) { c->mutable_plan()->mutable_schema()->set_slots(1, "strange"); });
  refused("slots: the checkpoint has 2, the job 3",
          [](JobConfig* c) { c->mutable_plan()->mutable_schema()->add_slots("more"); });
  refused("partitions: the checkpoint has 8", [](JobConfig* c) { c->mutable_job()->set_partitions(4); });
  refused("5 floats of optimizer state", [](JobConfig* c) {
    c->mutable_job()->mutable_optimizer()->mutable_sparse()->mutable_sgd()->set_learning_rate(1);
  });
  refused("tensor w block 0", [](JobConfig* c) {
    c->mutable_job()->mutable_optimizer()->mutable_dense()->mutable_sgd()->set_learning_rate(1);
  });
}

TEST_CASE("Checkpoint: a truncated or flipped part is an error that names it, never a crash", "[server][unit]") {
  TestCluster cluster(Config(), 2);
  for (uint64_t b = 0; b < 3; ++b) cluster.Push(Batch(b));
  const absl::StatusOr<std::string> path = cluster.Save(FreshDirectory("damage"), "a");
  REQUIRE(path.ok());
  const std::string file = *path + "/server-1.part", good = ReadFile(file);
  REQUIRE(good.size() > 1000);
  const auto damaged = [&](const std::string& bytes, bool load) {
    WriteFile(file, bytes);
    const absl::Status verified = VerifyCheckpoint(*path);
    CHECK_FALSE(verified.ok());
    CHECK(verified.message().find("server-1.part") != absl::string_view::npos);
    if (!load) return;
    const absl::Status loaded = TestCluster(Config(), 1, *path).prepared();
    CHECK_FALSE(loaded.ok());
    CHECK(loaded.message().find("server-1.part") != absl::string_view::npos);
  };
  for (size_t size = 0; size < good.size(); size += 1 + good.size() / 40) damaged(good.substr(0, size), true);
  for (size_t at = 0; at < good.size(); at += 1 + good.size() / 60) {
    std::string bytes = good;
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << (at % 8)));
    damaged(bytes, true);
  }
  fs::remove(file);
  CHECK(VerifyCheckpoint(*path).message().find("server-1.part") != absl::string_view::npos);
  WriteFile(file, good);
  CHECK(VerifyCheckpoint(*path).ok());
  std::string manifest = ReadFile(*path + "/manifest.bin");
  manifest[manifest.size() / 2] ^= 4;
  WriteFile(*path + "/manifest.bin", manifest);
  CHECK(ReadManifest(*path, nullptr).status().message().find("manifest.bin: checksum") != absl::string_view::npos);
}

TEST_CASE("Checkpoint: the newest of a directory is verified, whether or not it can be read", "[server][unit]") {
  const std::string dir = FreshDirectory("newest");
  TestCluster cluster(Config(), 1);
  for (uint64_t i = 1; i <= 3; ++i) {
    cluster.Push(Batch(i));
    REQUIRE(cluster.Save(dir, "c" + std::to_string(i), i, 3).ok());
  }
  CHECK(VerifyCheckpoint(dir).ok());
  const auto damaged = [&](const std::string& name, const std::string& what) {
    const absl::Status status = VerifyCheckpoint(dir);
    CHECK(status.code() == absl::StatusCode::kDataLoss);
    CHECK(status.message().find(dir + "/" + name) != absl::string_view::npos);
    CHECK(status.message().find(what) != absl::string_view::npos);
  };
  const std::string manifest = dir + "/c3/manifest.bin", good = ReadFile(manifest);
  for (size_t size = 0; size < good.size(); size += 1 + good.size() / 20) {
    WriteFile(manifest, good.substr(0, size));
    damaged("c3", "the one before it is " + dir + "/c2");
  }
  std::string flipped = good;
  flipped[good.size() - 1] ^= 1;
  WriteFile(manifest, flipped);
  damaged("c3", "checksum differs");
  fs::remove(manifest);
  damaged("c3", "manifest.bin");
  CHECK(ListDamaged(dir).value().size() == 1);
  // What is older than the newest that can be read is no concern of those who go on from that.
  WriteFile(manifest, good);
  WriteFile(dir + "/c2/manifest.bin", "nonsense");
  CHECK(VerifyCheckpoint(dir).ok());
  CHECK(ListDamaged(dir).value()[0].first == dir + "/c2");
  for (const char* name : {"c1", "c3"}) WriteFile(dir + "/" + name + "/manifest.bin", "nonsense");
  damaged("c3", "there is no other");
}

TEST_CASE("Checkpoint: somebody's copies are never removed, and do not count as kept", "[server][unit]") {
  const std::string dir = FreshDirectory("copies");
  TestCluster cluster(Config(), 1);
  cluster.Push(Batch(0));
  REQUIRE(cluster.Save(dir, "ckpt-00000001", 1, 1).ok());
  const std::vector<std::string> copies = {"ckpt-00000001.bak", "mine", "ckpt-+1", "ckpt-9223372036854775807"};
  for (const std::string& copy : copies) fs::copy(dir + "/ckpt-00000001", dir + "/" + copy);
  for (uint64_t i = 2; i <= 4; ++i) REQUIRE(cluster.Save(dir, "ckpt-0000000" + std::to_string(i), i, 2).ok());
  for (const std::string& copy : copies) CHECK(ReadManifest(dir + "/" + copy, nullptr).ok());
  for (int i = 1; i <= 4; ++i) CHECK(fs::exists(dir + "/ckpt-0000000" + std::to_string(i)) == (i > 2));
}

TEST_CASE("Checkpoint: what was just committed is not removed for a copy with a later sequence", "[server][unit]") {
  const std::string dir = FreshDirectory("late-copy");
  TestCluster cluster(Config(), 1);
  cluster.Push(Batch(0));
  REQUIRE(cluster.Save(dir, "ckpt-00000001", 9, 1).ok());
  for (uint64_t i = 2; i <= 3; ++i) {
    const std::string name = "ckpt-0000000" + std::to_string(i);
    REQUIRE(cluster.Save(dir, name, i, 1).ok());
    CHECK(ReadManifest(dir + "/" + name, nullptr).ok());
  }
}

TEST_CASE("Checkpoint: keeps the newest, ignores unfinished ones, commits twice without harm", "[server][unit]") {
  const std::string dir = FreshDirectory("keep");
  CHECK(CheckWritable(dir).ok());
  TestCluster cluster(Config(), 1);
  cluster.Push(Batch(0));
  for (uint64_t i = 1; i <= 4; ++i) REQUIRE(cluster.Save(dir, "c" + std::to_string(i), i, 2).ok());
  fs::create_directories(dir + "/c9.tmp");
  const auto all = ListCheckpoints(dir);
  REQUIRE(all.ok());
  REQUIRE(all->size() == 2);
  CHECK(all->at(0).second.sequence() == 3);
  CHECK(all->at(1).first == dir + "/c4");
  CHECK(HighestCheckpointNumber(dir).value() == 0);
  // Names are taken by damaged ones and by plain files, too.
  fs::create_directories(dir + "/ckpt-00000007");
  CHECK(HighestCheckpointNumber(dir).value() == 7);
  fs::create_directories(dir + "/ckpt-00000009.tmp");
  CHECK(HighestCheckpointNumber(dir).value() == 7);
  std::ofstream(dir + "/ckpt-00000011") << "a file";
  CHECK(HighestCheckpointNumber(dir).value() == 11);
  // What is no name has no number, and the next one is never 0.
  for (const char* other : {"/ckpt-+12", "/ckpt- 12", "/ckpt-18446744073709551615"})
    fs::create_directories(dir + other);
  CHECK(HighestCheckpointNumber(dir).value() == 11);
  CHECK(CommitCheckpoint(dir, "c4", all->at(1).second, 2).value() == dir + "/c4");
  CHECK(ReadManifest(dir + "/nothing", nullptr).status().code() == absl::StatusCode::kNotFound);
  CHECK_FALSE(CheckWritable("/proc/shoal").ok());
}

}  // namespace
}  // namespace shoal
