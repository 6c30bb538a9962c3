// Checkpoints that hold only what changed, and what a full disk leaves behind.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>

#include "server/checkpoint/checkpoint.h"
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
  config.mutable_job()->mutable_optimizer()->mutable_dense()->mutable_momentum()->set_learning_rate(0.1f);
  config.mutable_job()->mutable_optimizer()->mutable_dense()->mutable_momentum()->set_momentum(0.9f);
  config.mutable_job()->mutable_admission()->set_min_count(2);
  config.mutable_job()->mutable_ttl()->set_examples(50);
  config.mutable_job()->mutable_checkpoint()->set_full_every(4);
  return config;
}

// Ten records whose keys move on, so that rows come and expire.
TestBatch Batch(uint64_t number) {
  TestBatch batch;
  batch.begin = number * 10;
  batch.end = number * 10 + 10;
  for (uint64_t key = 5 * number; key < 5 * number + 30; ++key) {
    batch.rows[key * 0x9e3779b97f4a7c15ULL] = {static_cast<float>(key), -1.0f / static_cast<float>(key + 1)};
  }
  batch.dense = number % 3 == 0 ? 0.5f : 0;
  return batch;
}

void Train(TestCluster* cluster, uint64_t from, uint64_t to) {
  for (uint64_t b = from; b < to; ++b) {
    cluster->Push(Batch(b));
    REQUIRE(cluster->last().ok());
  }
}

std::map<std::string, std::string> Rows(const std::string& dir) {
  std::map<std::string, std::string> out;
  const absl::Status status = VisitRows(dir, [&](const CheckpointRow& row) {
    std::string& bytes = out[std::string(row.table) + std::to_string(row.key)];
    REQUIRE(bytes.empty());
    bytes.append(reinterpret_cast<const char*>(row.weights.data()), row.weights.size() * sizeof(float));
    bytes.append(reinterpret_cast<const char*>(row.state.data()), row.state.size() * sizeof(float));
  });
  INFO(status.ToString());
  REQUIRE(status.ok());
  return out;
}

uint64_t PartBytes(const std::string& dir) {
  uint64_t bytes = 0;
  for (const auto& file : fs::directory_iterator(dir)) {
    if (file.path().extension() == ".part") bytes += fs::file_size(file);
  }
  return bytes;
}

TEST_CASE("Delta checkpoints: a chain is the live state, on any number of servers, and training goes on with its bits",
          "[server][unit]") {
  const std::string dir = FreshDirectory("chain");
  TestCluster cluster(Config(), 3);
  Train(&cluster, 0, 30);
  REQUIRE(cluster.Save(dir, "c1", 1, 9).ok());
  Train(&cluster, 30, 31);
  REQUIRE(cluster.Save(dir, "c2", 2, 9, "c1").ok());
  Train(&cluster, 31, 45);
  const absl::StatusOr<std::string> last = cluster.Save(dir, "c3", 3, 9, "c2");
  INFO(last.status().ToString());
  REQUIRE(last.ok());
  CHECK(PartBytes(dir + "/c2") < PartBytes(dir + "/c1"));
  CHECK(VerifyCheckpoint(dir).ToString() == "OK");
  CHECK(ReadManifest(dir, nullptr)->parent() == "c2");
  const auto rows = Rows(*last);
  CHECK(rows.size() == cluster.Digest().at("t").second + cluster.Digest().at("w").second);
  std::vector<std::unique_ptr<TestCluster>> restored;
  for (int servers : {1, 2, 5}) {
    restored.push_back(std::make_unique<TestCluster>(Config(), servers, dir, 2));
    REQUIRE(restored.back()->prepared().ToString() == "OK");
    CHECK(restored.back()->Digest() == cluster.Digest());
  }
  // Written again as a whole by other servers, it reads the same.
  const absl::StatusOr<std::string> full = restored[1]->Save(FreshDirectory("full"), "f", 1);
  REQUIRE(full.ok());
  CHECK(Rows(*full) == rows);
  Train(&cluster, 45, 60);
  for (auto& other : restored) {
    Train(other.get(), 45, 60);
    CHECK(other->Digest() == cluster.Digest());
  }
}

TEST_CASE("Delta checkpoints: one that came to nothing is not built on; new copies of partitions write all they have",
          "[server][unit]") {
  const std::string dir = FreshDirectory("abandoned");
  TestCluster cluster(Config(), 2);
  Train(&cluster, 0, 20);
  REQUIRE(cluster.Save(dir, "c1", 1, 9).ok());
  Train(&cluster, 20, 24);
  // Both parts of c2 are written, then the committing server dies.
  CheckpointTask task;
  task.set_dir(dir);
  task.set_name("c2");
  task.set_parent("c1");
  for (int s = 0; s < 2; ++s) REQUIRE(cluster.server(s).WritePart(1, task, absl::Seconds(1)).ok());
  CHECK(fs::exists(dir + "/c2.tmp"));
  Train(&cluster, 24, 27);
  REQUIRE(cluster.Save(dir, "c3", 3, 9, "c1").ok());
  CHECK_FALSE(fs::exists(dir + "/c2.tmp"));
  CHECK(VerifyCheckpoint(dir + "/c3").ToString() == "OK");
  TestCluster other(Config(), 3, dir, 2);
  REQUIRE(other.prepared().ok());
  CHECK(other.Digest() == cluster.Digest());
  // These partitions did not write c3 themselves: their sections of c4 are full, c3 is only its parent by name.
  Train(&other, 27, 30);
  REQUIRE(other.Save(dir, "c4", 4, 9, "c3").ok());
  CHECK(VerifyCheckpoint(dir + "/c4").ToString() == "OK");
  TestCluster third(Config(), 1, dir, 3);
  CHECK(third.Digest() == other.Digest());
  // What is not there cannot be a parent.
  CHECK(other.Save(dir, "c5", 5, 9, "c9").status().message().find("its parent c9") != absl::string_view::npos);
}

TEST_CASE("Delta checkpoints: a missing, exchanged, reordered or damaged parent is named", "[server][unit]") {
  const std::string dir = FreshDirectory("broken");
  TestCluster cluster(Config(), 2);
  Train(&cluster, 0, 20);
  REQUIRE(cluster.Save(dir, "c1", 1, 9).ok());
  Train(&cluster, 20, 22);
  REQUIRE(cluster.Save(dir, "c2", 2, 9, "c1").ok());
  Train(&cluster, 22, 24);
  REQUIRE(cluster.Save(dir, "c3", 3, 9, "c2").ok());
  const auto refused = [&](const std::string& what) {
    for (const absl::Status& status :
         {VerifyCheckpoint(dir + "/c3"), TestCluster(Config(), 1, dir + "/c3", 2).prepared()}) {
      INFO(status.ToString());
      CHECK_FALSE(status.ok());
      CHECK(status.message().find(what) != absl::string_view::npos);
    }
  };
  const auto aside = [&](const std::string& name, auto during) {
    fs::rename(dir + "/" + name, dir + "/aside");
    during();
    fs::remove_all(dir + "/" + name);
    fs::rename(dir + "/aside", dir + "/" + name);
  };
  aside("c2", [&] { refused("c3: its parent c2"); });
  aside("c1", [&] { refused("c2: its parent c1"); });
  // Another checkpoint under the parent's name; the right one in the wrong place.
  aside("c2", [&] {
    fs::copy(dir + "/c1", dir + "/c2");
    refused("c2 has a manifest with checksum");
  });
  aside("c1", [&] {
    fs::copy(dir + "/c3", dir + "/c1");
    refused("c1 has a manifest with checksum");
  });
  const std::string part = dir + "/c1/server-1.part";
  std::ifstream in(part, std::ios::binary);
  const std::string good{std::istreambuf_iterator<char>(in), {}};
  std::string bytes = good;
  bytes[bytes.size() / 2] ^= 1;
  std::ofstream(part, std::ios::binary | std::ios::trunc) << bytes;
  refused("c1/server-1.part: partition");
  std::ofstream(part, std::ios::binary | std::ios::trunc) << good;
  CHECK(VerifyCheckpoint(dir).ToString() == "OK");
}

TEST_CASE("Delta checkpoints: keep spares what the kept ones build on", "[server][unit]") {
  const std::string dir = FreshDirectory("keep");
  TestCluster cluster(Config(), 1);
  const auto names = [&] {
    std::vector<std::string> out;
    const auto all = ListCheckpoints(dir);
    REQUIRE(all.ok());
    for (const auto& [path, manifest] : *all) out.push_back(fs::path(path).filename());
    return out;
  };
  std::string parent;
  for (uint64_t i = 1; i <= 6; ++i) {
    Train(&cluster, i, i + 1);
    const std::string name = "c" + std::to_string(i);
    if (i == 4) parent.clear();
    REQUIRE(cluster.Save(dir, name, i, 1, parent).ok());
    parent = name;
    if (i == 3) CHECK(names() == std::vector<std::string>{"c1", "c2", "c3"});
    if (i == 4) CHECK(names() == std::vector<std::string>{"c4"});
  }
  CHECK(names() == std::vector<std::string>{"c4", "c5", "c6"});
  for (const auto& entry : fs::directory_iterator(dir)) CHECK(entry.path().extension() != ".tmp");
}

TEST_CASE("Checkpoint: a full disk leaves the previous one as it is, and nothing of the new one", "[server][unit]") {
  const std::string dir = FreshDirectory("full_disk");
  TestCluster cluster(Config(), 2);
  Train(&cluster, 0, 10);
  REQUIRE(cluster.Save(dir, "c1", 1).ok());
  const auto before = cluster.Digest();
  // /dev/full says ENOSPC to every write.
  fs::create_directories(dir + "/c2.tmp");
  fs::create_symlink("/dev/full", dir + "/c2.tmp/server-0.part");
  const absl::Status status = cluster.Save(dir, "c2", 2).status();
  INFO(status.ToString());
  CHECK(status.code() == absl::StatusCode::kResourceExhausted);
  CHECK(status.message().find("c2.tmp/server-0.part: No space left on device") != absl::string_view::npos);
  CHECK_FALSE(fs::exists(dir + "/c2.tmp"));
  CHECK(VerifyCheckpoint(dir).ToString() == "OK");
  CHECK(ReadManifest(dir, nullptr)->sequence() == 1);
  // Training goes on, and so do checkpoints.
  CHECK(cluster.Digest() == before);
  Train(&cluster, 10, 12);
  REQUIRE(cluster.Save(dir, "c3", 3).ok());
  CHECK(TestCluster(Config(), 3, dir, 2).Digest() == cluster.Digest());
}

}  // namespace
}  // namespace shoal
