// A partition's way into a checkpoint and back, and its digest.
#include <xxhash.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/hash.h"
#include "server/store/key_hash.h"
#include "server/store/partition.h"

namespace shoal {
namespace {

// Hash of key bytes, then weights and state: two updates of one XXH64.
uint64_t RowHash(XXH64_state_t* hasher, uint64_t key, absl::Span<const float> first, absl::Span<const float> second) {
  XXH64_reset(hasher, 0);
  XXH64_update(hasher, &key, sizeof(key));
  XXH64_update(hasher, first.data(), first.size() * sizeof(float));
  if (!second.empty()) XXH64_update(hasher, second.data(), second.size() * sizeof(float));
  return XXH64_digest(hasher);
}

}  // namespace

PartEntry Partition::Save(uint64_t rounds_applied, std::string* out, PartitionDone* done) const {
  MutexLock lock(&mu_);
  *done = DoneLocked();
  done->set_rounds_applied(rounds_applied);
  const size_t begin = out->size();
  SectionWriter writer(out);
  PartitionProgress progress;
  progress.partition = id_;
  progress.examples = examples_;
  progress.rounds_applied = rounds_applied;
  progress.done_prefix = done_.prefix();
  progress.done_extra = done_.extra();
  for (const auto& [split, state] : open_) progress.open.push_back({split, state.lease, state.watermark});
  std::sort(progress.open.begin(), progress.open.end(),
            [](const auto& a, const auto& b) { return a.number < b.number; });
  writer.Progress(progress, static_cast<uint32_t>(tables_.size()));
  for (const auto& table : tables_) {
    writer.BeginTable();
    table->Visit(
        examples_,
        [&](uint64_t key, uint32_t slot, uint64_t touched, absl::Span<const float> values) {
          writer.Row(key, slot, touched, values);
        },
        [&](uint64_t key, uint32_t slot, uint64_t touched, uint32_t count) {
          writer.Counted(key, slot, touched, count);
        });
    writer.EndTable();
  }
  writer.BeginBlocks(dense_.count());
  for (uint64_t block = 0; block < dense_.count(); ++block) writer.Block(dense_.At(block));
  PartEntry entry;
  entry.partition = id_;
  entry.bytes = out->size() - begin;
  entry.rows = writer.rows();
  entry.counted = writer.counted();
  return entry;
}

// Fills a partition from its section. Runs under the partition's lock, which the analysis cannot see through the
// visitor interface, hence the assertions.
class Partition::Loader : public SectionVisitor {
 public:
  Loader(Partition* partition, uint64_t* rounds_applied)
      : partition_(partition), rounds_(rounds_applied), tally_(partition->stats_) {}

  absl::Status Progress(const PartitionProgress& progress) override {
    partition_->mu_.AssertHeld();
    *rounds_ = progress.rounds_applied;
    partition_->examples_ = progress.examples;
    partition_->done_.Restore(progress.done_prefix, progress.done_extra);
    for (const auto& split : progress.open) partition_->open_[split.number] = {split.lease, split.watermark};
    return absl::OkStatus();
  }
  absl::Status Row(uint32_t table, uint64_t key, uint32_t slot, uint64_t touched,
                   absl::Span<const float> values) override {
    partition_->mu_.AssertHeld();
    const absl::Status placed = CheckPlace(table, key);
    if (!placed.ok()) return placed;
    const bool fresh = partition_->tables_[table]->RestoreRow(key, slot, touched, values, &tally_);
    return fresh ? absl::OkStatus() : Twice(table, key);
  }
  absl::Status Counted(uint32_t table, uint64_t key, uint32_t slot, uint64_t touched, uint32_t count) override {
    partition_->mu_.AssertHeld();
    const absl::Status placed = CheckPlace(table, key);
    if (!placed.ok()) return placed;
    // A job that admits earlier than the one that counted keeps the key one occurrence short of a row.
    const uint32_t most = std::max<uint32_t>(1, partition_->schema_.min_count - 1);
    const uint32_t kept = std::min(std::max<uint32_t>(count, 1), most);
    const bool fresh = partition_->tables_[table]->RestoreCounted(key, slot, touched, kept, &tally_);
    return fresh ? absl::OkStatus() : Twice(table, key);
  }
  absl::Status Block(const PartBlock& block) override {
    partition_->mu_.AssertHeld();
    ++blocks_;
    return partition_->dense_.Restore(block);
  }
  uint64_t blocks() const { return blocks_; }

 private:
  absl::Status CheckPlace(uint32_t table, uint64_t key) const {
    const uint32_t place = PlaceOfKey(key, partition_->schema_.partitions).partition;
    if (place == partition_->id_) return absl::OkStatus();
    return absl::DataLossError(absl::StrCat("partition ", partition_->id_, ": table ",
                                            partition_->schema_.tables[table].name, " holds key ", key,
                                            ", which belongs to partition ", place));
  }
  absl::Status Twice(uint32_t table, uint64_t key) const {
    return absl::DataLossError(absl::StrCat("partition ", partition_->id_, ": table ",
                                            partition_->schema_.tables[table].name, " holds key ", key, " twice"));
  }

  Partition* const partition_;
  uint64_t* const rounds_;
  PushTally tally_;
  uint64_t blocks_ = 0;
};

absl::Status Partition::Load(absl::string_view section, const PartHeader& header, const PartEntry& entry,
                             uint64_t* rounds_applied) {
  MutexLock lock(&mu_);
  Loader loader(this, rounds_applied);
  const absl::Status parsed = ParseSection(section, header, entry, &loader);
  if (!parsed.ok()) return parsed;
  if (loader.blocks() == dense_.count()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("partition ", id_, ": the checkpoint holds ", loader.blocks(),
                                                 " dense blocks, the job needs ", dense_.count()));
}

void Partition::AddDigests(absl::Span<DigestSum> sums) const {
  MutexLock lock(&mu_);
  XXH64_state_t* hasher = XXH64_createState();
  for (size_t t = 0; t < tables_.size(); ++t) {
    tables_[t]->Visit(
        examples_,
        [&](uint64_t key, uint32_t, uint64_t, absl::Span<const float> values) {
          sums[t].sum += RowHash(hasher, key, values, {});
          ++sums[t].rows;
        },
        [](uint64_t, uint32_t, uint64_t, uint32_t) {});
  }
  for (uint64_t i = 0; i < dense_.count(); ++i) {
    const PartBlock block = dense_.At(i);
    DigestSum& sum = sums[tables_.size() + block.tensor];
    sum.sum += RowHash(hasher, block.index, block.weights, block.state);
    ++sum.rows;
  }
  XXH64_freeState(hasher);
}

}  // namespace shoal
