// Pulls and pushes over many partitions at once, of the shapes in which looking ahead crosses from one to the next.
#include <atomic>
#include <catch2/catch.hpp>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/random.h"
#include "server/store/key_hash.h"
#include "server/store/partition.h"

namespace shoal {
namespace {

constexpr uint32_t kPartitions = 40;
constexpr uint32_t kDims[] = {1, 16, 17};
constexpr float kRate = 0.5f;

std::shared_ptr<const JobSchema> Schema(uint64_t ttl) {
  JobConfig config;
  config.mutable_job()->set_seed(3);
  config.mutable_job()->set_partitions(kPartitions);
  config.mutable_job()->mutable_ttl()->set_examples(ttl);
  config.mutable_job()->mutable_optimizer()->mutable_sparse()->mutable_sgd()->set_learning_rate(kRate);
  config.mutable_job()->mutable_data()->set_passes(1);
  for (uint32_t dim : kDims) {
    TableSpec* table = config.mutable_plan()->mutable_model()->add_tables();
    table->set_name("t" + std::to_string(dim));
    table->set_dim(dim);
  }
  return JobSchema::Create(config).value();
}

struct Store {
  explicit Store(uint64_t ttl = 0) : schema(Schema(ttl)), stats(schema->tables.size(), schema->slot_count()) {
    for (uint32_t t = 0; t < schema->tables.size(); ++t) {
      pools.push_back(std::make_unique<SlabPool>(SparseTable::SlabBytes(*schema, t)));
    }
    for (uint32_t p = 0; p < kPartitions; ++p) {
      partitions.push_back(std::make_unique<Partition>(*schema, p, pools, &stats));
    }
  }
  const std::shared_ptr<const JobSchema> schema;
  StoreStats stats;
  std::vector<std::unique_ptr<SlabPool>> pools;
  std::vector<std::unique_ptr<Partition>> partitions;
};

// Different keys by partition: none, one, a few or many; every other list knows no hashes.
struct Keys {
  Keys(const std::vector<uint64_t>& all, uint64_t seed) : keys(kPartitions), hashes(kPartitions) {
    Random random({seed});
    uint64_t most[kPartitions];
    for (uint64_t& m : most) m = random.Below(4) == 0 ? 0 : random.Below(3) == 0 ? 1 : 1 + random.Below(90);
    for (uint64_t key : all) {
      const KeyPlace place = PlaceOfKey(key, kPartitions);
      if (keys[place.partition].size() == most[place.partition] || random.Below(3) == 0) continue;
      keys[place.partition].push_back(key);
      if (place.partition % 2 == 0) hashes[place.partition].push_back(place.within);
    }
  }
  std::vector<std::vector<uint64_t>> keys, hashes;
};

std::vector<uint64_t> AllKeys(uint64_t count) {
  std::vector<uint64_t> out;
  for (uint64_t i = 0; i < count; ++i) out.push_back(Mix64(i + 77));
  return out;
}

std::vector<PushOutcome> Push(Store* store, const Keys& keys, const PushRange& range) {
  PushTally tally(&store->stats);
  const std::vector<float> sums(100 * 17, 1.0f);
  std::vector<std::vector<RowGradients>> rows(kPartitions);
  std::vector<PartitionPush> pushes(kPartitions);
  for (uint32_t p = 0; p < kPartitions; ++p) {
    for (uint32_t t = 0; t < 3 && !keys.keys[p].empty(); ++t) {
      RowGradients some;
      some.table = t;
      some.keys = keys.keys[p];
      some.hashes = keys.hashes[p];
      some.sums = sums.data();
      rows[p].push_back(some);
    }
    pushes[p].partition = store->partitions[p].get();
    pushes[p].rows = rows[p];
  }
  Partition::Push(range, absl::MakeSpan(pushes), &tally);
  std::vector<PushOutcome> out;
  for (const PartitionPush& push : pushes) out.push_back(push.verdict.outcome);
  return out;
}

// Of each key and table what all values of its row are, or 1 if they differ: rows only fall from 0.
std::vector<float> Pull(const Store& store, const Keys& keys) {
  std::vector<std::vector<float>> values;
  std::vector<RowsRead> reads;
  std::vector<uint32_t> dims;
  for (uint32_t p = 0; p < kPartitions; ++p) {
    for (uint32_t t = 0; t < 3 && !keys.keys[p].empty(); ++t) {
      values.emplace_back(keys.keys[p].size() * kDims[t], -2.0f);
      dims.push_back(kDims[t]);
      reads.push_back({store.partitions[p].get(), t, keys.keys[p], keys.hashes[p], values.back().data()});
    }
  }
  Partition::ReadRows(reads);
  std::vector<float> out;
  for (size_t i = 0; i < values.size(); ++i) {
    for (size_t at = 0; at < values[i].size(); at += dims[i]) {
      bool same = true;
      for (size_t k = 1; k < dims[i]; ++k) same &= values[i][at + k] == values[i][at];
      out.push_back(same ? values[i][at] : 1.0f);
    }
  }
  return out;
}

// What Pull gives when key i was pushed counts(key) times: rows start at 0, and each push takes the rate.
template <typename Counts>
std::vector<float> Expected(const Keys& keys, const Counts& counts) {
  std::vector<float> out;
  for (uint32_t p = 0; p < kPartitions; ++p) {
    for (uint32_t t = 0; t < 3; ++t) {
      for (uint64_t key : keys.keys[p]) out.push_back(-kRate * static_cast<float>(counts(key)));
    }
  }
  return out;
}

TEST_CASE("Partitions: pushes and pulls over all of them agree with counting", "[store][unit]") {
  const uint64_t ttl = GENERATE(0u, 1000000u);
  Store store(ttl);
  const std::vector<uint64_t> all = AllKeys(3000);
  absl::flat_hash_map<uint64_t, int> counts;
  for (uint64_t step = 0; step < 60; ++step) {
    const Keys keys(all, step);
    // A lease of which some partitions know a newer one: they refuse, the others go on.
    if (step == 30) {
      uint64_t watermark;
      for (uint32_t p = 0; p < kPartitions; p += 3) store.partitions[p]->Open(1, 9, &watermark);
    }
    const bool fenced = step >= 30;
    const uint64_t split = fenced ? 1 : 0, begin = fenced ? step - 30 : step;
    const std::vector<PushOutcome> outcomes = Push(&store, keys, {split, 1, begin, begin + 1, false, 1});
    for (uint32_t p = 0; p < kPartitions; ++p) {
      const bool refused = fenced && p % 3 == 0;
      REQUIRE(outcomes[p] == (refused ? PushOutcome::kFenced : PushOutcome::kAccepted));
      if (refused) continue;
      for (uint64_t key : keys.keys[p]) ++counts[key];
    }
    const Keys read(all, 1000 + step);
    REQUIRE(Pull(store, read) == Expected(read, [&](uint64_t key) {
              const auto it = counts.find(key);
              return it == counts.end() ? 0 : it->second;
            }));
  }
}

TEST_CASE("Partitions: requests of many threads neither block one another for ever nor see half a row",
          "[store][unit]") {
  Store store;
  constexpr int kThreads = 4, kSteps = 40;
  const std::vector<uint64_t> all = AllKeys(1500);
  std::atomic<int> torn{0}, refused{0};
  std::vector<std::thread> threads;
  for (int thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      for (uint64_t step = 0; step < kSteps; ++step) {
        const Keys keys(all, step);  // the same for all threads, so that they meet
        const auto split = static_cast<uint64_t>(thread);
        for (PushOutcome outcome : Push(&store, keys, {split, 1, step, step + 1, false, 1})) {
          refused += outcome == PushOutcome::kAccepted ? 0 : 1;
        }
        for (float value : Pull(store, Keys(all, 500 + step))) torn += value > 0 ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(torn == 0);
  CHECK(refused == 0);
  absl::flat_hash_map<uint64_t, int> counts;
  for (uint64_t step = 0; step < kSteps; ++step) {
    for (const auto& keys : Keys(all, step).keys) {
      for (uint64_t key : keys) counts[key] += kThreads;
    }
  }
  const Keys read(all, 9999);
  CHECK(Pull(store, read) == Expected(read, [&](uint64_t key) {
          const auto it = counts.find(key);
          return it == counts.end() ? 0 : it->second;
        }));
}

}  // namespace
}  // namespace shoal
