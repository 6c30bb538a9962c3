// Images of partitions: full plus deltas are the partition itself, bit for bit.
#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <map>
#include <tuple>

#include "base/hash.h"
#include "base/random.h"
#include "server/store/partition.h"

namespace shoal {
namespace {

constexpr uint32_t kPartition = 2;
constexpr uint32_t kPartitions = 4;

uint64_t Seed() {
  const char* seed = std::getenv("SHOAL_TEST_SEED");
  return seed == nullptr ? 1 : std::strtoull(seed, nullptr, 10);
}

struct Shape {
  uint64_t ttl = 0;
  uint32_t min_count = 1;
  bool slots = false;
  uint64_t tensor = 100000;  // floats: enough for blocks in each partition
};

std::shared_ptr<const JobSchema> Schema(const Shape& shape) {
  JobConfig config;
  Job* job = config.mutable_job();
  job->set_seed(5);
  job->set_partitions(kPartitions);
  job->mutable_ttl()->set_examples(shape.ttl);
  job->mutable_admission()->set_min_count(shape.min_count);
  OptimizerPair* optimizer = job->mutable_optimizer();
  optimizer->mutable_sparse()->mutable_adam()->set_learning_rate(0.1f);
  optimizer->mutable_sparse()->mutable_adam()->set_beta1(0.9f);
  optimizer->mutable_sparse()->mutable_adam()->set_beta2(0.99f);
  optimizer->mutable_sparse()->mutable_adam()->set_epsilon(1e-6f);
  optimizer->mutable_dense()->mutable_momentum()->set_learning_rate(0.1f);
  optimizer->mutable_dense()->mutable_momentum()->set_momentum(0.9f);
  ModelSpec* model = config.mutable_plan()->mutable_model();
  for (uint32_t t = 0; t < 2; ++t) {
    TableSpec* table = model->add_tables();
    table->set_name(t == 0 ? "wide" : "deep");
    table->set_dim(1 + 3 * t);
    table->set_init_stddev(0.1f);
  }
  TensorSpec* tensor = model->add_tensors();
  tensor->set_name("w");
  tensor->add_shape(shape.tensor);
  tensor->set_init(TensorSpec::GLOROT_UNIFORM);
  if (shape.slots) {
    for (const char* slot : {"a", "b", "c"}) config.mutable_plan()->mutable_schema()->add_slots(slot);
  }
  return JobSchema::Create(config).value();
}

// One copy of the partition with what it needs around it.
struct Copy {
  explicit Copy(const JobSchema& schema) : stats(schema.tables.size(), schema.slot_count()) {
    for (uint32_t t = 0; t < schema.tables.size(); ++t) {
      pools.push_back(std::make_unique<SlabPool>(SparseTable::SlabBytes(schema, t)));
    }
    partition = std::make_unique<Partition>(schema, kPartition, pools, &stats);
  }
  StoreStats stats;
  std::vector<std::unique_ptr<SlabPool>> pools;
  std::unique_ptr<Partition> partition;
};

// Applies an image, as a server that holds a standby does.
absl::Status Take(Copy* copy, absl::string_view image, uint64_t* rounds) {
  copy->partition->Close();
  const absl::Status status = copy->partition->Apply(image, rounds);
  copy->partition->Reopen();
  return status;
}

// All that a partition holds, in an order that does not depend on how it came to hold it.
class Contents : public SectionVisitor {
 public:
  Contents(const Partition& partition, const JobSchema& schema) {
    std::string section;
    PartitionDone done;
    PartEntry entry = partition.Save(7, &section, &done);
    entry.checksum = HashBytes(section);
    REQUIRE(ParseSection(section, schema.header, entry, this).ok());
    REQUIRE(rows.size() == entry.rows);
    REQUIRE(counted.size() == entry.counted);
  }
  absl::Status Progress(const PartitionProgress& progress) override {
    version = progress.version;
    examples = progress.examples;
    prefix = progress.done_prefix;
    extra = progress.done_extra;
    for (const auto& split : progress.open) open.emplace_back(split.number, split.lease, split.watermark);
    return absl::OkStatus();
  }
  absl::Status Row(uint32_t table, uint64_t key, uint32_t slot, uint64_t touched,
                   absl::Span<const float> values) override {
    rows[{table, key}] = std::make_tuple(slot, touched, Bytes(values));
    return absl::OkStatus();
  }
  absl::Status Counted(uint32_t table, uint64_t key, uint32_t slot, uint64_t touched, uint32_t count) override {
    counted[{table, key}] = std::make_tuple(slot, touched, count);
    return absl::OkStatus();
  }
  absl::Status Erased(uint32_t, uint64_t) override { return absl::InternalError("in a full section"); }
  absl::Status Block(const PartBlock& block) override {
    blocks[{block.tensor, block.index}] = Bytes(block.weights) + Bytes(block.state);
    return absl::OkStatus();
  }
  bool operator==(const Contents& other) const {
    return std::tie(version, examples, prefix, extra, open, rows, counted, blocks) ==
           std::tie(other.version, other.examples, other.prefix, other.extra, other.open, other.rows, other.counted,
                    other.blocks);
  }

  using Id = std::pair<uint32_t, uint64_t>;
  uint64_t version = 0, examples = 0, prefix = 0;
  std::vector<uint64_t> extra;
  std::vector<std::tuple<uint64_t, uint64_t, uint64_t>> open;
  std::map<Id, std::tuple<uint32_t, uint64_t, std::string>> rows;
  std::map<Id, std::tuple<uint32_t, uint64_t, uint32_t>> counted;
  std::map<Id, std::string> blocks;

 private:
  static std::string Bytes(absl::Span<const float> values) {
    return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
  }
};

// The same random pushes, opens and ends of splits for every copy that is given.
class Trainer {
 public:
  Trainer(const JobSchema& schema, uint64_t seed) : schema_(schema), random_({seed, 77}) {
    for (uint64_t key = 0; keys_.size() < 1500; ++key) {
      if (PartitionOfKey(key, kPartitions) == kPartition) keys_.push_back(key);
    }
  }
  // `most`: keys of a push.
  void Step(absl::Span<Copy* const> copies, uint64_t most) {
    const uint64_t lane = random_.Below(3);
    uint64_t& split = split_[lane];
    if (split == 0 || random_.Below(20) == 0) {
      if (split == 0) split = next_split_++;
      ++lease_;
      uint64_t watermark;
      for (Copy* copy : copies) REQUIRE(copy->partition->Open(split, lease_, &watermark) == RequestOutcome::kOk);
      begin_[lane] = watermark;
    }
    PushRange range;
    range.split = split;
    range.lease = lease_;
    range.begin = begin_[lane];
    range.examples = random_.Below(15);
    range.end = range.begin + range.examples;
    range.end_of_split = random_.Below(10) == 0;
    FillGradients(most);
    PartitionGradients gradients;
    for (uint32_t t = 0; t < 2; ++t) {
      RowGradients rows;
      rows.table = t;
      rows.keys = pushed_;
      rows.sums = sums_.data();
      rows.slot = schema_.slots.empty() ? 0 : static_cast<uint16_t>(random_.Below(3));
      gradients.rows.push_back(rows);
    }
    if (random_.Below(3) == 0) gradients.dense = DenseGradients::InARow(dense_.data());
    for (Copy* copy : copies) {
      PushTally tally(&copy->stats);
      REQUIRE(copy->partition->Push(range, gradients, &tally).outcome == PushOutcome::kAccepted);
    }
    begin_[lane] = range.end;
    if (range.end_of_split) split = 0;
  }

 private:
  void FillGradients(uint64_t most) {
    pushed_.clear();
    // Mostly from a window that wanders, so that keys expire and come back.
    window_ = (window_ + random_.Below(25)) % keys_.size();
    const uint64_t count = random_.Below(most);
    for (uint64_t i = 0; i < count; ++i) {
      const uint64_t at = random_.Below(5) == 0 ? random_.Below(keys_.size()) : window_ + random_.Below(200);
      pushed_.push_back(keys_[at % keys_.size()]);
    }
    std::sort(pushed_.begin(), pushed_.end());
    pushed_.erase(std::unique(pushed_.begin(), pushed_.end()), pushed_.end());
    sums_.resize(4 * pushed_.size());
    for (float& sum : sums_) sum = static_cast<float>(random_.Normal());
    dense_.resize(schema_.layout.FloatsOf(kPartition), static_cast<float>(random_.Below(100)));
    if (!dense_.empty()) dense_[random_.Below(dense_.size())] += 1;
  }

  const JobSchema& schema_;
  Random random_;
  std::vector<uint64_t> keys_, pushed_;
  std::vector<float> sums_, dense_;
  std::map<uint64_t, uint64_t> split_, begin_;  // by lane
  uint64_t next_split_ = 1, lease_ = 0, window_ = 0;
};

TEST_CASE("Images: full plus deltas equal the live partition, with evictions, admission and several trackers",
          "[store][unit]") {
  INFO("SHOAL_TEST_SEED=" << Seed());
  const Shape shape = GENERATE(Shape{0, 1, false}, Shape{400, 1, false}, Shape{0, 3, true}, Shape{400, 3, true},
                               Shape{70000 * 16, 3, true});
  const uint64_t most = GENERATE(uint64_t{12}, uint64_t{500});  // listed changes; more than a list holds
  const auto schema = Schema(shape);
  Random random({Seed(), most});
  Trainer trainer(*schema, Seed() + most);
  Copy live(*schema);
  Copy* const copies[] = {&live};
  for (int i = 0; i < 60; ++i) trainer.Step(copies, most);
  // Two replicas that are brought up to date at different times, and a chain of deltas that never moves its mark back.
  Copy near(*schema), far(*schema);
  TrackerId near_tracker, far_tracker;
  std::string parent;
  uint64_t rounds = 0;
  REQUIRE(Take(&near, live.partition->TakeFull(3, &near_tracker).bytes, &rounds).ok());
  CHECK(rounds == 3);
  for (int i = 0; i < 20; ++i) trainer.Step(copies, most);
  REQUIRE(Take(&far, live.partition->TakeFull(0, &far_tracker).bytes, &rounds).ok());
  std::vector<std::pair<PartEntry, std::string>> sections;
  uint64_t erased = 0;
  for (int round = 0; round < 40; ++round) {
    const uint64_t steps = random.Below(12);
    for (uint64_t i = 0; i < steps; ++i) trainer.Step(copies, most);
    const PartitionImage image = live.partition->TakeDelta(near_tracker, 0);
    REQUIRE(Take(&near, image.bytes, &rounds).ok());
    REQUIRE(image.version == live.partition->version());
    REQUIRE(Contents(*near.partition, *schema) == Contents(*live.partition, *schema));
    if (random.Below(6) == 0) {
      REQUIRE(Take(&far, live.partition->TakeDelta(far_tracker, 0).bytes, &rounds).ok());
      REQUIRE(Contents(*far.partition, *schema) == Contents(*live.partition, *schema));
    }
    if (random.Below(8) == 0) {
      std::string section;
      PartitionDone done;
      const std::string name = "c" + std::to_string(round);
      PartEntry entry = live.partition->SaveDelta(parent, name, 0, &section, &done);
      REQUIRE(entry.delta == !parent.empty());
      entry.checksum = HashBytes(section);
      erased += entry.erased;
      // Every other comes to nothing: the next starts from the same parent.
      if (random.Below(2) == 0) {
        parent = name;
        sections.emplace_back(entry, section);
      }
    }
  }
  std::string section;
  PartitionDone done;
  PartEntry entry = live.partition->SaveDelta(parent, "last", 0, &section, &done);
  CHECK(entry.delta == !sections.empty());
  entry.checksum = HashBytes(section);
  sections.emplace_back(entry, section);
  Copy restored(*schema);
  for (const auto& [part, bytes] : sections) {
    REQUIRE(restored.partition->Load(bytes, schema->header, part, &rounds).ok());
  }
  CHECK(Contents(*restored.partition, *schema) == Contents(*live.partition, *schema));
  REQUIRE(Take(&far, live.partition->TakeDelta(far_tracker, 0).bytes, &rounds).ok());
  CHECK(schema->layout.FloatsOf(kPartition) > 0);
  std::vector<DigestSum> digests[4];
  const Partition* const all[] = {live.partition.get(), near.partition.get(), far.partition.get(),
                                  restored.partition.get()};
  REQUIRE(Take(&near, live.partition->TakeDelta(near_tracker, 0).bytes, &rounds).ok());
  for (int i = 0; i < 4; ++i) {
    digests[i].resize(schema->tables.size() + schema->tensors.size());
    all[i]->AddDigests(absl::MakeSpan(digests[i]));
    for (size_t t = 0; t < digests[i].size(); ++t) {
      CHECK(digests[i][t].sum == digests[0][t].sum);
      CHECK(digests[i][t].rows == digests[0][t].rows);
    }
  }
  if (shape.ttl == 400 && sections.size() > 2) CHECK(erased > 0);
  // Nothing that cannot be read is different either: all copies go on to the same bits.
  Copy* const promoted[] = {&live, &near, &far, &restored};
  for (int i = 0; i < 150; ++i) trainer.Step(promoted, most);
  for (const Partition* copy : all) CHECK(Contents(*copy, *schema) == Contents(*live.partition, *schema));
}

TEST_CASE("Images: a push gives the delta of just itself, in the same step", "[store][unit]") {
  const auto schema = Schema({400, 2, true});
  Copy live(*schema), replica(*schema);
  TrackerId tracker;
  uint64_t rounds = 0, watermark = 0;
  REQUIRE(Take(&replica, live.partition->TakeFull(0, &tracker).bytes, &rounds).ok());
  std::vector<uint64_t> keys;
  for (uint64_t key = 0; keys.size() < 5; ++key) {
    if (PartitionOfKey(key, kPartitions) == kPartition) keys.push_back(key);
  }
  const std::vector<float> sums(20, 0.5f);
  PartitionGradients gradients;
  gradients.rows.resize(1);
  gradients.rows[0].keys = keys;
  gradients.rows[0].sums = sums.data();
  PushRange range;
  range.split = 3;
  range.lease = 9;
  range.end = range.examples = 10;
  PushTally tally(&live.stats);
  PartitionImage delta;
  const PushVerdict verdict = live.partition->Push(range, gradients, &tally, tracker, &delta);
  CHECK(verdict.version == delta.version);
  absl::string_view section;
  PartEntry entry = ParseImage(delta.bytes, schema->shape, &section).value();
  CHECK(entry.delta);
  CHECK(entry.counted == 5);  // the first of two occurrences
  CHECK(entry.rows == 0);
  CHECK(delta.done.open(0).watermark() == 10);
  REQUIRE(Take(&replica, delta.bytes, &rounds).ok());
  // A repeat changes nothing and gives nothing, but says what the backup must have.
  delta = {};
  CHECK(live.partition->Push(range, gradients, &tally, tracker, &delta).outcome == PushOutcome::kDuplicate);
  CHECK(delta.bytes.empty());
  range.begin = 10;
  range.end = 20;
  gradients.rows[0].keys = absl::MakeConstSpan(keys).subspan(0, 2);
  CHECK(live.partition->Push(range, gradients, &tally, tracker, &delta).outcome == PushOutcome::kAccepted);
  entry = ParseImage(delta.bytes, schema->shape, &section).value();
  CHECK(entry.rows == 2);
  CHECK(entry.counted == 0);
  REQUIRE(Take(&replica, delta.bytes, &rounds).ok());
  CHECK(Contents(*replica.partition, *schema) == Contents(*live.partition, *schema));
  CHECK(replica.partition->Open(3, 8, &watermark) == RequestOutcome::kFenced);
  CHECK(replica.partition->Open(3, 9, &watermark) == RequestOutcome::kOk);
  CHECK(watermark == 20);
  // A lease that was raised is a change, too: an older lane must find it at the promoted backup.
  REQUIRE(live.partition->Open(3, 10, &watermark) == RequestOutcome::kOk);
  REQUIRE(Take(&replica, live.partition->TakeDelta(tracker, 0).bytes, &rounds).ok());
  CHECK(replica.partition->Open(3, 9, &watermark) == RequestOutcome::kFenced);
}

TEST_CASE("Images: lost, doubled, reordered, foreign and damaged ones are refused", "[store][unit]") {
  const auto schema = Schema({400, 3, true, 3});
  Trainer trainer(*schema, 4);
  Copy live(*schema);
  Copy* const copies[] = {&live};
  for (int i = 0; i < 30; ++i) trainer.Step(copies, 20);
  TrackerId tracker;
  uint64_t rounds = 0;
  const PartitionImage full = live.partition->TakeFull(0, &tracker);
  std::vector<PartitionImage> deltas;
  for (int d = 0; d < 3; ++d) {
    for (int i = 0; i < 3; ++i) trainer.Step(copies, 6);
    deltas.push_back(live.partition->TakeDelta(tracker, 0));
  }
  const auto code = [&](std::vector<absl::string_view> images) {
    Copy copy(*schema);
    absl::Status status;
    for (absl::string_view image : images) {
      if (status.ok()) status = Take(&copy, image, &rounds);
    }
    return status.code();
  };
  CHECK(code({full.bytes, deltas[0].bytes, deltas[1].bytes, deltas[2].bytes}) == absl::StatusCode::kOk);
  CHECK(code({full.bytes, deltas[1].bytes}) == absl::StatusCode::kFailedPrecondition);
  CHECK(code({full.bytes, deltas[0].bytes, deltas[0].bytes}) == absl::StatusCode::kFailedPrecondition);
  CHECK(code({deltas[0].bytes}) == absl::StatusCode::kFailedPrecondition);
  CHECK(code({full.bytes, full.bytes}) == absl::StatusCode::kFailedPrecondition);
  // Truncation at every byte, one byte too many, a bit of each byte.
  const std::string& good = deltas[0].bytes;
  Copy copy(*schema);
  REQUIRE(Take(&copy, full.bytes, &rounds).ok());
  const Contents before(*copy.partition, *schema);
  uint64_t taken = 0;
  for (size_t size = 0; size < good.size(); ++size) {
    taken += Take(&copy, absl::string_view(good).substr(0, size), &rounds).ok() ? 1 : 0;
  }
  for (size_t at = 0; at < good.size(); ++at) {
    std::string bytes = good;
    bytes[at] = static_cast<char>(bytes[at] ^ (1 << (at % 8)));
    taken += Take(&copy, bytes, &rounds).ok() ? 1 : 0;
  }
  taken += Take(&copy, good + "x", &rounds).ok() ? 1 : 0;
  CHECK(taken == 0);
  CHECK(Contents(*copy.partition, *schema) == before);  // the checksum is looked at first
  // Another job's tables, another partition.
  const auto other = Schema({400, 3, false});
  Copy foreign(*other);
  CHECK(Take(&foreign, full.bytes, &rounds).code() == absl::StatusCode::kInvalidArgument);
  Partition neighbour(*schema, kPartition + 1, live.pools, &live.stats);
  CHECK(neighbour.Apply(full.bytes, &rounds).message() == "partition 3: the image is one of 2");
}

TEST_CASE("ChangeLog: names keys while they are few, then bits; a reused row number is a new change", "[store][unit]") {
  ChangeLog log(5);
  for (uint32_t row = 0; row < 100; ++row) log.Row(row, 1000 + row, 800);
  log.Row(7, 1007, 800);
  CHECK(log.listed());
  CHECK(log.Keys().size() == 100);
  log.ErasedRow(7, 1007);
  CHECK_FALSE(log.Changed(7));
  log.Row(7, 55, 800);
  CHECK(log.Changed(7));
  CHECK(log.Keys().size() == 101);
  CHECK(log.ErasedKeys() == std::vector<uint64_t>{1007});
  for (uint32_t row = 100; row < 400; ++row) log.Row(row, 1000 + row, 800);
  CHECK_FALSE(log.listed());
  CHECK(log.Changed(399));
  CHECK_FALSE(log.Changed(400));
  log.ClearRows();
  log.ClearLists(9);
  CHECK(log.listed());
  CHECK(log.since() == 9);
  CHECK_FALSE(log.Changed(399));
  for (int i = 0; i < 100000; ++i) log.Erased(static_cast<uint64_t>(i % 10));
  CHECK(log.ErasedKeys().size() == 10);
}

}  // namespace
}  // namespace shoal
