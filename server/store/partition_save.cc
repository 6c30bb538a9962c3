// A partition's way into a checkpoint and back, and its digest.
#include <xxhash.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/hash.h"
#include "base/status_macros.h"
#include "server/store/key_hash.h"
#include "server/store/partition.h"

namespace shoal {
namespace {

// Room for progress and the heads of blocks; more of them only cost a copy.
constexpr uint64_t kSectionOverheadBytes = 16 << 10;

// Hash of key bytes, then weights and state: two updates of one XXH64.
uint64_t RowHash(XXH64_state_t* hasher, uint64_t key, absl::Span<const float> first, absl::Span<const float> second) {
  XXH64_reset(hasher, 0);
  XXH64_update(hasher, &key, sizeof(key));
  XXH64_update(hasher, first.data(), first.size() * sizeof(float));
  if (!second.empty()) XXH64_update(hasher, second.data(), second.size() * sizeof(float));
  return XXH64_digest(hasher);
}

}  // namespace

PartEntry Partition::Write(const Trackers::value_type* since, uint64_t rounds_applied, std::string* out) const {
  const size_t begin = out->size();
  if (since == nullptr) {
    // At once: growing by doubling would copy everything once more, under the lock.
    uint64_t bytes = dense_.bytes() + kSectionOverheadBytes;
    for (const auto& table : tables_) bytes += table->SectionBytes();
    out->reserve(begin + bytes);
  }
  SectionWriter writer(out);
  PartitionProgress progress;
  progress.partition = id_;
  if (since != nullptr) progress.base = since->second;
  progress.version = version_;
  progress.examples = examples_;
  progress.rounds_applied = rounds_applied;
  progress.done_prefix = done_.prefix();
  progress.done_extra = done_.extra();
  for (const auto& [split, state] : open_) progress.open.push_back({split, state.lease, state.watermark});
  std::sort(progress.open.begin(), progress.open.end(),
            [](const auto& a, const auto& b) { return a.number < b.number; });
  writer.Progress(progress, static_cast<uint32_t>(tables_.size()));
  const auto row = [&](uint64_t key, uint32_t slot, uint64_t touched, absl::Span<const float> values) {
    writer.Row(key, slot, touched, values);
  };
  const auto counted = [&](uint64_t key, uint32_t slot, uint64_t touched, uint32_t count) {
    writer.Counted(key, slot, touched, count);
  };
  const auto erased = [&](uint64_t key) { writer.Erased(key); };
  for (const auto& table : tables_) {
    writer.BeginTable();
    if (since == nullptr) {
      table->Visit(examples_, row, counted);
    } else {
      table->VisitChanges(since->first, examples_, {row, counted, erased});
    }
    writer.EndTable();
  }
  std::vector<uint64_t> blocks;
  for (uint64_t block = 0; block < dense_.count(); ++block) {
    if (since == nullptr || dense_.ChangedSince(block, since->second)) blocks.push_back(block);
  }
  writer.BeginBlocks(blocks.size());
  for (uint64_t block : blocks) writer.Block(dense_.At(block));
  PartEntry entry;
  entry.partition = id_;
  entry.delta = since != nullptr;
  entry.bytes = out->size() - begin;
  entry.rows = writer.rows();
  entry.counted = writer.counted();
  entry.erased = writer.erased();
  return entry;
}

PartEntry Partition::Save(uint64_t rounds_applied, std::string* out, PartitionDone* done) const {
  MutexLock lock(&mu_);
  *done = DoneLocked();
  done->set_rounds_applied(rounds_applied);
  return Write(nullptr, rounds_applied, out);
}

PartEntry Partition::SaveDelta(const std::string& parent, const std::string& name, uint64_t rounds_applied,
                               std::string* out, PartitionDone* done) {
  MutexLock lock(&mu_);
  *done = DoneLocked();
  done->set_rounds_applied(rounds_applied);
  // A repeat of this checkpoint starts over.
  for (auto it = checkpoints_.begin(); it != checkpoints_.end();) {
    if (it->first == parent) {
      ++it;
      continue;
    }
    UntrackLocked(it->second);
    it = checkpoints_.erase(it);
  }
  const auto mark = checkpoints_.find(parent);
  const auto since = mark == checkpoints_.end() ? trackers_.end() : trackers_.find(mark->second);
  const PartEntry entry = Write(since == trackers_.end() ? nullptr : &*since, rounds_applied, out);
  checkpoints_[name] = TrackLocked();
  return entry;
}

TrackerId Partition::TrackLocked() {
  const TrackerId tracker = next_tracker_++;
  trackers_[tracker] = version_;
  for (const auto& table : tables_) table->Track(tracker, examples_);
  return tracker;
}

TrackerId Partition::Track() {
  MutexLock lock(&mu_);
  return TrackLocked();
}

void Partition::Untrack(TrackerId tracker) {
  MutexLock lock(&mu_);
  UntrackLocked(tracker);
}

void Partition::UntrackLocked(TrackerId tracker) {
  if (trackers_.erase(tracker) == 0) return;
  for (const auto& table : tables_) table->Untrack(tracker);
}

PartitionImage Partition::TakeImage(TrackerId since, uint64_t rounds_applied) {
  PartitionImage image;
  image.version = version_;
  image.done = DoneLocked();
  image.done.set_rounds_applied(rounds_applied);
  image.bytes.resize(kImageHeadBytes);
  const auto it = trackers_.find(since);
  const PartEntry entry = Write(it == trackers_.end() ? nullptr : &*it, rounds_applied, &image.bytes);
  SealImage(entry, schema_.shape, &image.bytes);
  if (it != trackers_.end()) {
    it->second = version_;
    for (const auto& table : tables_) table->ClearChanges(since, examples_);
  }
  return image;
}

PartitionImage Partition::TakeFull(uint64_t rounds_applied, TrackerId* tracker) {
  MutexLock lock(&mu_);
  PartitionImage image = TakeImage(kNoTracker, rounds_applied);
  if (tracker != nullptr) *tracker = TrackLocked();
  return image;
}

PartitionImage Partition::TakeDelta(TrackerId tracker, uint64_t rounds_applied) {
  MutexLock lock(&mu_);
  return TakeImage(tracker, rounds_applied);
}

// Fills a partition from its section. Runs under the partition's lock, which the analysis cannot see through the
// visitor interface, hence the assertions.
class Partition::Loader : public SectionVisitor {
 public:
  Loader(Partition* partition, bool delta, uint64_t* rounds_applied)
      : partition_(partition), delta_(delta), rounds_(rounds_applied), tally_(partition->stats_) {}

  absl::Status Progress(const PartitionProgress& progress) override {
    partition_->mu_.AssertHeld();
    if (delta_ ? progress.base != partition_->version_ : partition_->version_ != 0) {
      return absl::FailedPreconditionError(absl::StrCat("partition ", partition_->id_, ": stands at version ",
                                                        partition_->version_, ", its section needs ",
                                                        delta_ ? progress.base : 0, delta_ ? "" : ", an empty one"));
    }
    *rounds_ = progress.rounds_applied;
    partition_->version_ = progress.version;
    partition_->examples_ = progress.examples;
    partition_->done_.Restore(progress.done_prefix, progress.done_extra);
    partition_->open_.clear();
    for (const auto& split : progress.open) partition_->open_[split.number] = {split.lease, split.watermark};
    return absl::OkStatus();
  }
  void Table(uint32_t table, uint64_t rows, uint64_t counted) override {
    partition_->mu_.AssertHeld();
    if (!delta_) partition_->tables_[table]->Reserve(rows + counted);
  }
  absl::Status Row(uint32_t table, uint64_t key, uint32_t slot, uint64_t touched,
                   absl::Span<const float> values) override {
    partition_->mu_.AssertHeld();
    const absl::Status placed = CheckPlace(table, key);
    if (!placed.ok()) return placed;
    if (delta_) {
      partition_->tables_[table]->UpsertRow(key, slot, touched, values, &tally_);
      return absl::OkStatus();
    }
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
    if (delta_) {
      partition_->tables_[table]->UpsertCounted(key, slot, touched, kept, &tally_);
      return absl::OkStatus();
    }
    const bool fresh = partition_->tables_[table]->RestoreCounted(key, slot, touched, kept, &tally_);
    return fresh ? absl::OkStatus() : Twice(table, key);
  }
  absl::Status Erased(uint32_t table, uint64_t key) override {
    partition_->mu_.AssertHeld();
    const absl::Status placed = CheckPlace(table, key);
    if (placed.ok()) partition_->tables_[table]->Erase(key, &tally_);
    return placed;
  }
  absl::Status Block(const PartBlock& block) override {
    partition_->mu_.AssertHeld();
    ++blocks_;
    return partition_->dense_.Restore(block, true);
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
  const bool delta_;
  uint64_t* const rounds_;
  PushTally tally_;
  uint64_t blocks_ = 0;
};

absl::Status Partition::Load(absl::string_view section, const PartHeader& header, const PartEntry& entry,
                             uint64_t* rounds_applied) {
  MutexLock lock(&mu_);
  return LoadLocked(section, header, entry, rounds_applied);
}

absl::Status Partition::Apply(absl::string_view image, uint64_t* rounds_applied) {
  absl::string_view section;
  SHOAL_ASSIGN_OR_RETURN(const PartEntry entry, ParseImage(image, schema_.shape, &section));
  if (entry.partition != id_) {
    return absl::InvalidArgumentError(absl::StrCat("partition ", id_, ": the image is one of ", entry.partition));
  }
  MutexLock lock(&mu_);
  // A map may have made it the owner while the image was on its way.
  if (!closed_) return absl::FailedPreconditionError(absl::StrCat("partition ", id_, ": it is served here"));
  return LoadLocked(section, schema_.header, entry, rounds_applied);
}

absl::Status Partition::LoadLocked(absl::string_view section, const PartHeader& header, const PartEntry& entry,
                                   uint64_t* rounds_applied) {
  // Marks would have to know of keys that were counted elsewhere before them.
  for (const auto& [tracker, version] : trackers_) {
    for (const auto& table : tables_) table->Untrack(tracker);
  }
  trackers_.clear();
  checkpoints_.clear();
  Loader loader(this, entry.delta, rounds_applied);
  SHOAL_RETURN_IF_ERROR(ParseSection(section, header, entry, &loader));
  if (entry.delta || loader.blocks() == dense_.count()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("partition ", id_, ": the checkpoint holds ", loader.blocks(),
                                                 " dense blocks, the job needs ", dense_.count()));
}

bool Partition::AdoptRow(uint32_t table, uint64_t key, uint32_t slot, absl::Span<const float> values,
                         PushTally* tally) {
  MutexLock lock(&mu_);
  version_ = 1;  // not empty any more
  return tables_[table]->RestoreRow(key, slot, examples_, values, tally);
}

absl::Status Partition::AdoptBlock(const PartBlock& block, bool with_state) {
  MutexLock lock(&mu_);
  version_ = 1;
  return dense_.Restore(block, with_state);
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
