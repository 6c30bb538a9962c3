// Random interleavings of pushes, moves, backups, losses and cuts for one partition: every batch counts once, and what
// was acknowledged survives a promotion.
#include <catch2/catch.hpp>
#include <iostream>
#include <vector>

#include "base/random.h"
#include "server/test_cluster.h"

namespace shoal {
namespace {

constexpr int kServers = 3;
constexpr uint64_t kBatches = 24;
constexpr uint64_t kKeys = 12;
const std::vector<uint32_t> kPartition = {0};

JobConfig OnePartition() {
  JobConfig config = TestCluster::DefaultConfig();
  config.mutable_job()->set_partitions(1);
  return config;
}

TestBatch Batch(uint64_t number, uint64_t lease) {
  TestBatch batch;
  batch.begin = 10 * number;
  batch.end = 10 * number + 10;
  batch.lease = lease;
  // Others each time, so that rows come into being all along.
  for (uint64_t key = 0; key <= number % kKeys; ++key) batch.rows[key] = {-1, -static_cast<float>(number + 1)};
  return batch;
}

// What a row holds after batches 0 .. batches - 1.
std::vector<float> Expected(uint64_t key, uint64_t batches) {
  std::vector<float> out = {0, 0};
  for (uint64_t number = 0; number < batches; ++number) {
    if (key > number % kKeys) continue;
    out[0] += 1;
    out[1] += static_cast<float>(number + 1);
  }
  return out;
}

// The scheduler, one lane and the faults, all drawn from one seed.
class World {
 public:
  explicit World(uint64_t seed) : random_({seed, 77}), cluster_(OnePartition(), kServers) {
    cluster_.Publish();
    cluster_.network().fate = [this](const ReplicaRequest&) { return Fate(); };
  }

  void Step() {
    switch (random_.Below(12)) {
      case 0:
        return Move();
      case 1:
        return AddBackup();
      case 2:
        return LoseOwner();
      case 3:
        return Heal();
      case 4:
        cluster_.clock().Advance(absl::Seconds(1));
        for (int s = 0; s < kServers; ++s) cluster_.server(s).Tick();
        return;
      case 5:
        if (next_ > 0) cluster_.PushTo(owner_, Batch(next_ - 1, lease_));  // an old message
        return;
      default:
        return Train();
    }
  }

  void Finish() {
    calm_ = true;
    Heal();
    for (int tries = 0; tries < 1000 && next_ < kBatches; ++tries) {
      Train();
      cluster_.clock().Advance(absl::Seconds(1));
      for (int s = 0; s < kServers; ++s) cluster_.server(s).Tick();
    }
    REQUIRE(next_ == kBatches);
    CheckRows();
  }

  uint64_t promotions() const { return promotions_; }
  uint64_t moves() const { return moves_; }
  uint64_t restores() const { return restores_; }

 private:
  ReplicaFate Fate() {
    if (calm_) return ReplicaFate::kDeliver;
    // Lanes do not stand still while a copy is made.
    if (!inside_ && random_.Below(3) == 0) {
      inside_ = true;
      Train();
      inside_ = false;
    }
    return FateOf(random_.Below(12));
  }

  // All but those that are cut off get the view; only `s` has tasks.
  void Publish(int s = 0, const std::vector<uint64_t>& tasks = {}) {
    for (int i = 0; i < kServers; ++i) {
      if (cut_[i]) continue;
      ClusterView view;
      *view.add_jobs() = cluster_.view();
      for (uint64_t id : tasks) {
        if (i == s) view.add_tasks()->set_id(id);
      }
      cluster_.server(i).UpdateView(view, 100 + static_cast<uint64_t>(i));
    }
  }

  int Another() {
    for (;;) {
      const int s = static_cast<int>(random_.Below(kServers));
      if (s != owner_ && !cut_[s]) return s;
    }
  }

  void Train() {
    if (reopen_) {
      const OpenSplitReply opened = cluster_.Open(1, ++lease_, 0, owner_);
      if (opened.outcome != RequestOutcome::kOk || opened.watermarks.size() != 1) return;
      next_ = opened.watermarks[0] / 10;
      // What was acknowledged is there.
      REQUIRE(next_ >= acked_);
      reopen_ = false;
    }
    if (next_ == kBatches) return;
    const int before = cluster_.outstanding();
    const PushReply reply = cluster_.PushTo(owner_, Batch(next_, lease_));
    const bool answered = cluster_.outstanding() == before;
    const PushOutcome outcome = reply.exceptions.empty() ? PushOutcome::kAccepted : reply.exceptions[0].outcome;
    if (!answered || !cluster_.last().ok()) return;  // sent again later
    if (outcome == PushOutcome::kAccepted || outcome == PushOutcome::kDuplicate) {
      acked_ = ++next_;
    } else {
      reopen_ = true;
    }
  }

  // Rows agree with the watermark, whatever it is.
  void CheckRows() {
    const std::vector<PartitionDone> done =
        cluster_.server(owner_).ReportDone(1).value_or(std::vector<PartitionDone>());
    if (done.empty() || done[0].open_size() == 0) return;
    for (uint64_t key = 0; key < kKeys; ++key) {
      REQUIRE(cluster_.Read(key) == Expected(key, done[0].open(0).watermark() / 10));
    }
  }

  void Move() {
    const int target = Another();
    Publish(owner_, {++task_});
    const absl::Status moved = cluster_.Copy(Task::MOVE_PARTITIONS, task_, owner_, kPartition, target);
    if (moved.ok() && random_.Below(4) != 0) {
      ++moves_;
      if (cluster_.view().backup_size() > 0) cluster_.Back(kPartition, -1);
      cluster_.Give(kPartition, target);
      owner_ = target;
      synced_ = -1;
      reopen_ = true;
    }
    Publish();
    CheckRows();
  }

  void AddBackup() {
    const int target = Another();
    synced_ = -1;
    cluster_.Back(kPartition, target);
    Publish(owner_, {++task_});
    if (cluster_.Copy(Task::ADD_BACKUP, task_, owner_, kPartition, target).ok()) {
      synced_ = target;
    } else {
      cluster_.Back(kPartition, -1);
    }
    Publish();
  }

  // The owner is killed, or cut off from the scheduler: then it goes on for lanes that still reach it.
  void LoseOwner() {
    if (cut_[0] || cut_[1] || cut_[2]) return;
    const int lost = owner_;
    JobView known = cluster_.view();
    cut_[lost] = true;
    if (random_.Below(2) == 0) cluster_.server(lost).DropJob(1);
    const bool promoted = synced_ >= 0;
    owner_ = promoted ? synced_ : Another();
    promotions_ += promoted;
    if (cluster_.view().backup_size() > 0) cluster_.Back(kPartition, -1);
    cluster_.Give(kPartition, owner_);
    synced_ = -1;
    reopen_ = true;
    Publish();
    // Without a backup what was acknowledged is computed again.
    if (!promoted) acked_ = 0;
    if (!promoted) ++restores_;
    if (!promoted) REQUIRE(cluster_.Restore(owner_, kPartition).ok());
    // A lane that still knows the old owner.
    std::swap(cluster_.view(), known);
    const int before = cluster_.outstanding();
    const bool accepted = cluster_.PushTo(lost, Batch(next_, lease_)).exceptions.empty();
    const bool acknowledged = accepted && cluster_.outstanding() == before && cluster_.last().ok();
    std::swap(cluster_.view(), known);
    if (promoted) REQUIRE_FALSE(acknowledged);
    CheckRows();
  }

  void Heal() {
    for (bool& cut : cut_) cut = false;
    Publish();
  }

  Random random_;
  TestCluster cluster_;
  int owner_ = 0, synced_ = -1;
  bool cut_[kServers] = {false, false, false};
  uint64_t task_ = 0, lease_ = 1;
  uint64_t next_ = 0, acked_ = 0;
  bool reopen_ = true, calm_ = false, inside_ = false;
  uint64_t promotions_ = 0, moves_ = 0, restores_ = 0;
};

TEST_CASE("Replication: random interleavings count every batch once and lose nothing that a backup confirmed",
          "[server][unit]") {
  const std::vector<uint64_t> seeds = TestSeeds(100);
  uint64_t promotions = 0, moves = 0, restores = 0;
  for (uint64_t seed : seeds) {
    INFO("seed " << seed << " (SHOAL_TEST_SEED)");
    World world(seed);
    for (int step = 0; step < 120; ++step) world.Step();
    world.Finish();
    promotions += world.promotions();
    moves += world.moves();
    restores += world.restores();
  }
  std::cout << promotions << " promotions, " << moves << " moves, " << restores << " restores\n";
  if (seeds.size() == 1) return;
  CHECK(promotions > 50);
  CHECK(moves > 100);
  CHECK(restores > 50);
}

}  // namespace
}  // namespace shoal
