#include "scheduler/placement/placement.h"

#include <catch2/catch.hpp>
#include <set>

#include "base/random.h"
#include "scheduler/placement/partition_map.h"

namespace shoal {
namespace {

ServerAddress Server(uint64_t process) {
  ServerAddress server;
  server.set_process(process);
  server.set_name("s" + std::to_string(process));
  return server;
}

std::map<uint64_t, int> Counts(const PartitionMap& map) {
  std::map<uint64_t, int> counts;
  for (uint32_t p = 0; p < map.size(); ++p) ++counts[map.at(p).owner];
  return counts;
}

bool NobodyAvoided(uint64_t, uint64_t) { return false; }

TEST_CASE("PartitionMap: losses promote backups that are in step and keep the rest as lost", "[scheduler][unit]") {
  PartitionMap map;
  map.PlaceAll(4, {Server(1), Server(2)});
  CHECK(Counts(map) == std::map<uint64_t, int>{{1, 2}, {2, 2}});
  for (uint32_t p : {0, 2}) map.SetBackup(p, Server(2));
  map.SetBackup(1, Server(1));
  map.SetSynced(0);
  CHECK(map.CountWithoutBackup() == 3);
  StoredJob stored;
  map.Publish(&stored);
  CHECK(stored.map_version() == 1);
  PartitionMap loaded;
  loaded.Load(stored);
  const PartitionLoss loss = loaded.Lose(1);
  CHECK(loss.promoted == std::vector<uint32_t>{0});
  CHECK(loss.lost == std::vector<uint32_t>{2});
  CHECK(loss.backups == 1);
  CHECK(loaded.at(0).owner == 2);
  CHECK(loaded.at(0).backup == 0);
  CHECK(loaded.at(2).lost);
  CHECK(loaded.at(2).owner == 1);
  CHECK_FALSE(loaded.Lose(7).any());
  loaded.Publish(&stored);
  CHECK(stored.map_version() == 2);
  map.Load(stored);
  CHECK(map.CountLost() == 1);
  map.SetOwner(2, Server(2));
  CHECK(map.at(2).lost);
  map.SetRestored(2);
  map.Publish(&stored);
  CHECK(stored.servers_size() == 1);
  CHECK(stored.lost_size() == 0);
}

TEST_CASE("Placement: the homeless go to those that carry least", "[scheduler][unit]") {
  PartitionMap map;
  map.PlaceAll(9, {Server(1), Server(2), Server(3)});
  const std::vector<PartitionMove> moves = PlaceHomeless(map, PartitionWeights(9, {}), {1, 2});
  REQUIRE(moves.size() == 3);
  std::map<uint64_t, int> targets;
  for (const PartitionMove& move : moves) {
    CHECK(map.at(move.partition).owner == 3);
    ++targets[move.target];
  }
  CHECK(targets == std::map<uint64_t, int>{{1, 2}, {2, 1}});
}

TEST_CASE("Placement: balance by count and bytes, with a tolerance", "[scheduler][unit]") {
  PartitionMap map;
  map.PlaceAll(8, {Server(1), Server(2)});
  const std::vector<double> even = PartitionWeights(8, {});
  CHECK(PlanBalance(map, even, {1, 2}).empty());
  for (const PartitionMove& move : PlanBalance(map, even, {1, 2, 3})) map.SetOwner(move.partition, Server(3));
  CHECK(Counts(map) == std::map<uint64_t, int>{{1, 3}, {2, 3}, {3, 2}});
  CHECK(PlanBalance(map, even, {1, 2, 3}).empty());
  // One heavy partition: something light leaves its server.
  std::map<uint32_t, PartitionLoad> loads;
  for (uint32_t p = 0; p < 8; ++p) loads[p].set_bytes(p == 0 ? 100 << 20 : 1 << 10);
  const std::vector<PartitionMove> moves = PlanBalance(map, PartitionWeights(8, loads), {1, 2, 3});
  REQUIRE_FALSE(moves.empty());
  for (const PartitionMove& move : moves) {
    CHECK(move.partition != 0);
    CHECK(map.at(move.partition).owner == map.at(0).owner);
  }
}

TEST_CASE("Placement: levelling the load comes to an end, and moves each partition once", "[scheduler][property]") {
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    INFO("seed " << seed);
    Random rng({seed});
    const uint32_t partitions = 1 + static_cast<uint32_t>(rng.Next() % 96),
                   servers = 1 + static_cast<uint32_t>(rng.Next() % 6);
    std::vector<ServerAddress> addresses;
    std::vector<uint64_t> staying;
    for (uint64_t s = 1; s <= servers; ++s) {
      addresses.push_back(Server(s));
      staying.push_back(s);
    }
    PartitionMap map;
    map.PlaceAll(partitions, {addresses[0]});
    std::map<uint32_t, PartitionLoad> loads;
    for (uint32_t p = 0; p < partitions; ++p) {
      map.SetOwner(p, addresses[rng.Next() % servers]);
      if (rng.Next() % 8 != 0) loads[p].set_bytes(rng.Next() % (uint64_t{1} << (10 + rng.Next() % 22)));
    }
    const std::vector<double> weights = PartitionWeights(partitions, loads);
    std::set<uint32_t> moved;
    for (const PartitionMove& move : PlanBalance(map, weights, staying)) {
      CHECK(moved.insert(move.partition).second);
      CHECK(map.at(move.partition).owner != move.target);
      map.SetOwner(move.partition, addresses[move.target - 1]);
    }
    CHECK(PlanBalance(map, weights, staying).empty());
  }
}

TEST_CASE("Placement: what is small or known at different instants hardly weighs", "[scheduler][unit]") {
  std::map<uint32_t, PartitionLoad> loads;
  for (uint32_t p = 0; p < 32; ++p) loads[p].set_bytes(p % 2 == 0 ? 10000 : 50000);
  PartitionMap map;
  map.PlaceAll(32, {Server(1), Server(2)});
  CHECK(PlanBalance(map, PartitionWeights(32, loads), {1, 2}).empty());
}

TEST_CASE("Placement: backups lie on other servers, evenly", "[scheduler][unit]") {
  PartitionMap map;
  map.PlaceAll(6, {Server(1), Server(2), Server(3)});
  CHECK(PlaceBackups(map, {1}, NobodyAvoided).size() == 4);
  std::map<uint64_t, int> backups;
  for (const PartitionMove& backup : PlaceBackups(map, {1, 2, 3}, NobodyAvoided)) {
    CHECK(backup.target != map.at(backup.partition).owner);
    ++backups[backup.target];
  }
  CHECK(backups == std::map<uint64_t, int>{{1, 2}, {2, 2}, {3, 2}});
  const auto moves =
      PlaceBackups(map, {1, 2, 3}, [](uint64_t owner, uint64_t backup) { return owner == 1 && backup == 2; });
  CHECK(moves.size() == 6);
  for (const PartitionMove& backup : moves) CHECK((map.at(backup.partition).owner != 1 || backup.target == 3));
}

}  // namespace
}  // namespace shoal
