#include <sys/mman.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <map>
#include <unordered_map>

#include "base/done_set.h"
#include "base/hash.h"
#include "base/random.h"
#include "server/store/initial_values.h"
#include "server/store/key_hash.h"
#include "server/store/sparse_table.h"

namespace shoal {
namespace {

uint64_t Seed() {
  const char* seed = std::getenv("SHOAL_TEST_SEED");
  return seed == nullptr ? 1 : std::strtoull(seed, nullptr, 10);
}

std::shared_ptr<const JobSchema> Schema(uint64_t ttl, uint32_t min_count, uint32_t dim, float stddev, int slots = 0) {
  JobConfig config;
  config.mutable_job()->set_partitions(1);
  config.mutable_job()->mutable_ttl()->set_examples(ttl);
  config.mutable_job()->mutable_admission()->set_min_count(min_count);
  config.mutable_job()->mutable_optimizer()->mutable_sparse()->mutable_adagrad()->set_learning_rate(1);
  config.mutable_job()->mutable_optimizer()->mutable_sparse()->mutable_adagrad()->set_epsilon(1);
  TableSpec* table = config.mutable_plan()->mutable_model()->add_tables();
  table->set_name("t");
  table->set_dim(dim);
  table->set_init_stddev(stddev);
  for (int s = 0; s < slots; ++s) config.mutable_plan()->mutable_schema()->add_slots("s" + std::to_string(s));
  return JobSchema::Create(config).value();
}

TEST_CASE("PlaceOfKey: the partition is PartitionOfKey, the rest is uniform", "[store][unit]") {
  uint64_t upper = 0;
  for (uint64_t key = 0; key < 20000; ++key) {
    for (uint32_t partitions : {1u, 7u, 256u, 65536u}) {
      REQUIRE(PlaceOfKey(key, partitions).partition == PartitionOfKey(key, partitions));
    }
    upper += PlaceOfKey(key, 7).within >> 63;
  }
  CHECK(upper > 9700);
  CHECK(upper < 10300);
}

// The inverse of Mix64, step by step.
uint64_t Unmix64(uint64_t x) {
  x ^= x >> 31 ^ x >> 62;
  x *= 0x319642b2d24d8ec3ULL;
  x ^= x >> 27 ^ x >> 54;
  x *= 0x96de1b173f119089ULL;
  return x ^ x >> 30 ^ x >> 60;
}

TEST_CASE("KeyIndex: keys that an adversary chose for one line are all found", "[store][unit]") {
  // With one partition a key's lines follow from its hash h and h * 2^64 / golden ratio. Multiples of a large Fibonacci
  // number F as steps of h change neither much: F * 2^64 / golden ratio is almost a multiple of 2^64.
  constexpr uint64_t kFibonacci = 4'807'526'976;
  PageHeap heap;
  KeyIndex index(1, &heap);
  std::vector<uint64_t> keys;
  for (uint64_t i = 0; i < 300; ++i) {
    const uint64_t key = Unmix64((uint64_t{1} << 40) + i * kFibonacci) ^ 0x5bd1e9955bd1e995ULL;
    REQUIRE(PlaceOfKey(key, 1).within == (uint64_t{1} << 40) + i * kFibonacci);
    index.Insert(key, static_cast<uint32_t>(i), KeyIndex::TagOf(0, 0));
    keys.push_back(key);
  }
  CHECK(index.size() == 300);
  for (int round = 0; round < 2; ++round) {
    for (uint64_t i = 0; i < keys.size(); ++i) {
      const uint64_t cell = index.Find(keys[i]);
      if (round == 1 && i % 2 == 0) {
        CHECK(cell == KeyIndex::kNone);
        continue;
      }
      REQUIRE(cell != KeyIndex::kNone);
      CHECK(index.at(cell).value == i);
      if (round == 0 && i % 2 == 0) index.Erase(cell);
    }
  }
  CHECK(index.size() == 150);
  // They cost memory for themselves, not a table that grows for ever.
  CHECK(index.cells() < 4096);
}

TEST_CASE("KeyIndex: agrees with a map through inserts, erasures and growth; keys 0 and ~0", "[store][unit]") {
  INFO("SHOAL_TEST_SEED=" << Seed());
  Random random({Seed(), 1});
  PageHeap heap;
  KeyIndex index(3, &heap);
  std::unordered_map<uint64_t, uint32_t> model;
  for (uint32_t step = 0; step < 60000; ++step) {
    // Few distinct keys, so that erasures hit; with 0 and ~0 among them.
    const uint64_t key = random.Below(3000) - 1;
    const uint64_t cell = index.Find(key);
    REQUIRE((cell != KeyIndex::kNone) == (model.count(key) == 1));
    if (cell == KeyIndex::kNone) {
      index.Insert(key, step, KeyIndex::TagOf(step & 0xffff, 0));
      model[key] = step;
    } else if (random.Below(3) != 0) {
      REQUIRE(index.at(cell).value == model[key]);
      REQUIRE(index.at(cell).slot() == (model[key] & 0xffff));
      index.Erase(cell);
      model.erase(key);
    }
    REQUIRE(index.size() == model.size());
  }
  for (const auto& [key, value] : model) REQUIRE(index.at(index.Find(key)).value == value);
  uint64_t used = 0;
  for (uint64_t cell = 0; cell < index.cells(); ++cell) used += index.used(cell) ? 1 : 0;
  CHECK(used == model.size());
}

TEST_CASE("PageHeap: blocks never overlap, and what is freed in any order is one piece again", "[store][unit]") {
  INFO("SHOAL_TEST_SEED=" << Seed());
  Random random({Seed(), 2});
  PageHeap heap;
  struct Block {
    unsigned char* begin;
    uint64_t bytes;
    unsigned char mark;
  };
  std::vector<Block> blocks;
  const auto intact = [](const Block& block) {
    return std::all_of(block.begin, block.begin + block.bytes, [&](unsigned char c) { return c == block.mark; });
  };
  const auto free_one = [&](size_t at) {
    REQUIRE(intact(blocks[at]));
    heap.Free(blocks[at].begin, blocks[at].bytes);
    blocks[at] = blocks.back();
    blocks.pop_back();
  };
  uint64_t most = 0;
  for (int step = 0; step < 400; ++step) {
    if (!blocks.empty() && random.Below(5) < 2) {
      free_one(random.Below(blocks.size()));
      continue;
    }
    // From malloc's sizes to beyond a huge page.
    const uint64_t bytes = 64 + random.Below(uint64_t{1} << (8 + random.Below(15)));
    const auto mark = static_cast<unsigned char>(step);
    blocks.push_back({static_cast<unsigned char*>(heap.Allocate(bytes)), bytes, mark});
    REQUIRE(reinterpret_cast<uintptr_t>(blocks.back().begin) % 64 == 0);
    std::fill_n(blocks.back().begin, bytes, mark);
    most = std::max(most, bytes);
  }
  while (!blocks.empty()) free_one(random.Below(blocks.size()));
  // All of it fits into the addresses that were there before.
  const uint64_t free = heap.FreeBytes();
  void* const block = heap.Allocate(most);
  CHECK(heap.FreeBytes() == free - (most + 4095) / 4096 * 4096);
  heap.Free(block, most);
  CHECK(heap.FreeBytes() == free);
}

TEST_CASE("PageHeap: huge pages without a block go back to the system, others keep what they hold", "[store][unit]") {
  PageHeap heap;
  // Four blocks of half a page, in the order of their addresses: the first two share a page, and the last two.
  constexpr uint64_t kHalf = kHugePageBytes / 2;
  unsigned char* blocks[4];
  for (auto& block : blocks) {
    block = static_cast<unsigned char*>(heap.Allocate(kHalf));
    std::fill_n(block, kHalf, 7);
  }
  REQUIRE(blocks[3] == blocks[0] + 3 * kHalf);
  const auto resident = [](const unsigned char* begin) {
    std::vector<unsigned char> pages(kHalf / 4096);
    REQUIRE(mincore(const_cast<unsigned char*>(begin), kHalf, pages.data()) == 0);
    return std::count_if(pages.begin(), pages.end(), [](unsigned char page) { return (page & 1) != 0; }) != 0;
  };
  heap.Free(blocks[1], kHalf);
  heap.Free(blocks[2], kHalf);
  CHECK(resident(blocks[1]));
  CHECK(resident(blocks[2]));
  heap.Free(blocks[0], kHalf);
  CHECK(!resident(blocks[0]));
  CHECK(!resident(blocks[1]));
  CHECK(resident(blocks[2]));
  CHECK(std::all_of(blocks[3], blocks[3] + kHalf, [](unsigned char c) { return c == 7; }));
  heap.Free(blocks[3], kHalf);
  CHECK(!resident(blocks[3]));
}

TEST_CASE("SparseTable: agrees with a model of TTL, admission and reuse", "[store][unit]") {
  INFO("SHOAL_TEST_SEED=" << Seed());
  constexpr uint64_t kTtl = 500;
  const auto schema = Schema(kTtl, 3, 4, 0.5f);
  SlabPool pool(SparseTable::SlabBytes(*schema, 0));
  StoreStats stats(1, 1);
  SparseTable table(*schema, 0, &pool, &stats);
  struct ModelRow {
    uint64_t count = 0, touched = 0;
    std::vector<float> weights, squares;
  };
  std::map<uint64_t, ModelRow> model;
  const auto initial = [&](uint64_t key) {
    std::vector<float> out(4);
    FillInitialRow(schema->seed, HashBytes("t"), key, 0.5f, 4, out.data());
    return out;
  };
  Random random({Seed(), 2});
  uint64_t now = 0;
  for (int step = 0; step < 3000; ++step) {
    std::vector<uint64_t> keys;
    std::vector<float> sums;
    std::vector<uint32_t> occurrences;
    const uint64_t first = random.Below(400);
    for (uint64_t key = first; key < first + 40; key += 1 + random.Below(3)) {
      keys.push_back(key == 7 ? ~uint64_t{0} : key);
      for (int c = 0; c < 4; ++c) sums.push_back(static_cast<float>(random.Normal()));
      occurrences.push_back(static_cast<uint32_t>(1 + random.Below(2)));
    }
    const uint64_t examples = 1 + random.Below(30);
    const float divisor = static_cast<float>(examples);
    PushTally tally(&stats);
    table.Apply({0, keys, sums.data(), occurrences, {}}, {now, now + examples, divisor, 1}, &tally);
    for (size_t i = 0; i < keys.size(); ++i) {
      ModelRow& row = model[keys[i]];
      if (now >= row.touched + kTtl) row = ModelRow();
      row.count += occurrences[i];
      row.touched = now + examples;
      if (row.count < 3) continue;
      if (row.weights.empty()) row.weights = initial(keys[i]), row.squares = {0, 0, 0, 0};
      for (size_t c = 0; c < 4; ++c) {
        const float g = sums[i * 4 + c] / divisor;
        row.squares[c] += g * g;
        row.weights[c] -= 1.0f * g / (std::sqrt(row.squares[c]) + 1.0f);
      }
    }
    now += examples;
    table.Sweep(now, table.cells() / 20, &tally);
    tally.Publish();
    if (step % 50 != 0) continue;
    keys.clear();
    std::vector<float> expected;
    for (auto& [key, row] : model) {
      keys.push_back(key);
      const bool there = !row.weights.empty() && now < row.touched + kTtl;
      const std::vector<float> values = there ? row.weights : initial(key);
      expected.insert(expected.end(), values.begin(), values.end());
    }
    std::vector<float> got(expected.size());
    table.Read(keys, now, got.data());
    const bool same = got == expected;  // not in REQUIRE, which would print thousands of floats
    REQUIRE(same);
  }
  CHECK(stats.Of(0, 0).expired > 0);
  // Everything expires, and a full sweep leaves an empty table whose cells are used again.
  PushTally tally(&stats);
  table.Sweep(now + 2 * kTtl, table.cells(), &tally);
  tally.Publish();
  CHECK(stats.Of(0, 0).rows == 0);
  CHECK(stats.Of(0, 0).keys == 0);
}

TEST_CASE("SparseTable: at most 28 bytes a row beyond weights and state", "[store][unit]") {
  JobConfig config;
  config.mutable_job()->set_partitions(1);
  TableSpec* spec = config.mutable_plan()->mutable_model()->add_tables();
  spec->set_name("t");
  spec->set_dim(16);
  const auto schema = JobSchema::Create(config).value();
  SlabPool pool(SparseTable::SlabBytes(*schema, 0));
  StoreStats stats(1, 1);
  SparseTable table(*schema, 0, &pool, &stats);
  const std::vector<float> zeros(16, 0);
  PushTally tally(&stats);
  double worst = 0;
  for (uint64_t key = 1; key <= 60000; ++key) {
    const uint64_t mixed = Mix64(key);
    table.Apply({0, {&mixed, 1}, zeros.data(), {}, {}}, {0, 1, 1, 1}, &tally);
    // A partition of a 10 M row table with 256 partitions has 39,000 rows; look at all sizes around that.
    if (key < 20000) continue;
    const double bytes = static_cast<double>(stats.used_bytes.load()) / static_cast<double>(key);
    worst = std::max(worst, bytes - 17 * sizeof(float));
  }
  CHECK(worst <= 28);
  tally.Publish();
  CHECK(stats.Of(0, 0).rows == 60000);
}

// One push of `keys`, key k from slot k % 3, with gradient 1 or, where a key is in `bad`, NaN.
void PushSlots(SparseTable* table, StoreStats* stats, const std::vector<uint64_t>& keys,
               const std::vector<uint64_t>& bad, uint64_t now) {
  std::vector<float> sums;
  std::vector<uint16_t> slots;
  for (uint64_t key : keys) {
    slots.push_back(static_cast<uint16_t>(key % 3));
    const bool refused = std::find(bad.begin(), bad.end(), key) != bad.end();
    sums.insert(sums.end(), 4, refused ? std::nanf("") : 1.0f);
  }
  PushTally tally(stats);
  table->Apply({0, keys, sums.data(), {}, slots}, {now, now + 1, 1, 1}, &tally);
}

TEST_CASE("SparseTable: counts by slot through refusals, admission, expiry, restore and the table's end",
          "[store][unit]") {
  const auto schema = Schema(10, 2, 4, 0, 3);
  SlabPool pool(SparseTable::SlabBytes(*schema, 0));
  StoreStats stats(1, 3), restored_stats(1, 3);
  {
    SparseTable table(*schema, 0, &pool, &stats), restored(*schema, 0, &pool, &restored_stats);
    // Keys 3 and 4 are seen twice, 5 once more but refused by the guard, 6 once.
    PushSlots(&table, &stats, {3, 4, 5}, {}, 0);
    CHECK(stats.Of(0, 0).keys == 1);
    CHECK(stats.Of(0, 0).rows == 0);
    PushSlots(&table, &stats, {3, 4, 5, 6}, {5}, 1);
    const SlotCounts zero = stats.Of(0, 0), one = stats.Of(0, 1), two = stats.Of(0, 2);
    CHECK((zero.rows == 1 && zero.keys == 2 && zero.not_admitted == 2 && zero.guard_refused == 0));
    CHECK((one.rows == 1 && one.keys == 1 && one.not_admitted == 1 && one.guard_refused == 0));
    CHECK((two.rows == 0 && two.keys == 1 && two.not_admitted == 1 && two.guard_refused == 1));
    CHECK(stats.OfTable(0).keys == 4);
    // A row stays with the slot that it was created for, whatever slot a later push says.
    PushTally tally(&stats);
    const std::vector<uint64_t> key = {4};
    const std::vector<float> gradient(4, 1);
    RowGradients other{0, key, gradient.data(), {}, {}};
    other.slot = 2;
    table.Apply(other, {2, 3, 1, 1}, &tally);
    tally.Publish();
    CHECK(stats.Of(0, 2).rows == 0);
    // What is saved brings the same counts of rows and keys back.
    PushTally restore(&restored_stats);
    table.Visit(
        3,
        [&](uint64_t k, uint32_t slot, uint64_t touched, absl::Span<const float> values) {
          CHECK(restored.RestoreRow(k, slot, touched, values, &restore));
        },
        [&](uint64_t k, uint32_t slot, uint64_t touched, uint32_t count) {
          CHECK(restored.RestoreCounted(k, slot, touched, count, &restore));
        });
    restore.Publish();
    for (uint32_t slot = 0; slot < 3; ++slot) {
      CHECK(restored_stats.Of(0, slot).rows == stats.Of(0, slot).rows);
      CHECK(restored_stats.Of(0, slot).keys == stats.Of(0, slot).keys);
    }
    CHECK(restored_stats.used_bytes == stats.used_bytes);
    // At 12, key 3 (touched at 2) is past its TTL and key 4 (touched at 3) is not.
    table.Sweep(12, table.cells(), &tally);
    tally.Publish();
    CHECK((stats.Of(0, 0).expired == 1 && stats.Of(0, 0).rows == 0));
    CHECK((stats.Of(0, 1).expired == 0 && stats.Of(0, 1).rows == 1));
  }
  for (const StoreStats* s : {&stats, &restored_stats}) {
    CHECK(s->OfTable(0).rows == 0);
    CHECK(s->OfTable(0).keys == 0);
    CHECK(s->used_bytes == 0);
  }
}

TEST_CASE("JobSchema: bounds of what a tag holds are refused by name", "[store][unit]") {
  JobConfig config;
  config.mutable_job()->mutable_admission()->set_min_count(32768);
  CHECK(JobSchema::Create(config).status().message() == "admission.min_count: 32768, must be in [1, 32767]");
  config.mutable_job()->mutable_admission()->set_min_count(32767);
  for (int s = 0; s <= 65536; ++s) config.mutable_plan()->mutable_schema()->add_slots("s");
  CHECK(JobSchema::Create(config).status().message() == "plan.schema.slots: 65537, must be at most 65536");
  config.mutable_plan()->mutable_schema()->mutable_slots()->RemoveLast();
  CHECK(JobSchema::Create(config).value()->slot_count() == 65536);
  CHECK(KeyIndex::TagOf(65535, KeyIndex::kMaxCount) != KeyIndex::kEmpty);
}

TEST_CASE("Initial values: pure functions with the stated moments", "[store][unit]") {
  double sum = 0, squares = 0;
  std::vector<float> row(9), again(9), shorter(4);
  for (uint64_t key = 0; key < 5000; ++key) {
    FillInitialRow(3, 4, key, 0.1f, 9, row.data());
    for (float value : row) sum += value, squares += value * value;
  }
  CHECK(sum / 45000 == Approx(0).margin(0.002));
  CHECK(std::sqrt(squares / 45000) == Approx(0.1).epsilon(0.02));
  FillInitialRow(3, 4, 4999, 0.1f, 9, again.data());
  CHECK(again == row);
  FillInitialRow(3, 4, 4999, 0.1f, 4, shorter.data());
  CHECK(std::equal(shorter.begin(), shorter.end(), row.begin()));
  TensorSpec tensor;
  tensor.set_name("w");
  tensor.add_shape(10);
  tensor.add_shape(14);
  tensor.set_init(TensorSpec::GLOROT_UNIFORM);
  std::vector<float> whole(140), part(40);
  FillInitialBlock(3, tensor, 0, 140, whole.data());
  FillInitialBlock(3, tensor, 100, 40, part.data());
  CHECK(std::equal(part.begin(), part.end(), whole.begin() + 100));
  for (float value : whole) CHECK(std::abs(value) <= 0.5f);  // sqrt(6 / 24)
  CHECK(*std::max_element(whole.begin(), whole.end()) > 0.4f);
  tensor.set_init(TensorSpec::ONE);
  FillInitialBlock(3, tensor, 0, 40, part.data());
  CHECK(part == std::vector<float>(40, 1));
}

TEST_CASE("DoneSet: prefix swallows extras", "[store][unit]") {
  DoneSet done;
  for (uint64_t number : {3, 1, 5, 0, 1}) done.Add(number);
  CHECK(done.prefix() == 2);
  CHECK(done.extra() == std::vector<uint64_t>{3, 5});
  done.Add(2);
  CHECK(done.prefix() == 4);
  CHECK(done.Contains(5));
  CHECK_FALSE(done.Contains(4));
}

}  // namespace
}  // namespace shoal
